"""The progress of running executions, whichever master their node syncs with.

What this master received is stored locally, too: it is available while Redis is away, and after Redis was emptied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlfleet.broker.memory.progress import MemoryProgress
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import KEPT_S, Away, Link
from crawlfleet.model.ids import ExecutionId

_MAX_PER_CALL = 2_000
"""Largest number of executions in one script call: Lua passes fewer than 8,000 arguments at once."""


class RedisProgress:
    def __init__(self, link: Link, local: MemoryProgress, max_executions: int) -> None:
        self._link = link
        self._local = local
        self._key = link.scoped_key("progress")
        self._max_executions = max_executions

    async def put_progress(self, figures: Mapping[ExecutionId, bytes]) -> None:
        await self._local.put_progress(figures)
        items = list(figures.items())
        for first in range(0, len(items), _MAX_PER_CALL):
            arguments = [word for item in items[first : first + _MAX_PER_CALL] for word in item]
            self._link.send_script(scripts.PUT_ON_BOARD, self._key, self._max_executions, KEPT_S, *arguments)

    async def load_progress(self, executions: Sequence[ExecutionId]) -> dict[ExecutionId, bytes]:
        local = await self._local.load_progress(executions)
        if not executions:
            return local
        try:
            answers = await self._link.call_command("HMGET", self._key, *executions)
        except Away:
            return local
        shared = zip(executions, answers, strict=True)
        return local | {execution: bytes(progress) for execution, progress in shared if progress is not None}
