"""The progress of running executions, whichever master their node syncs with.

What this master received is stored locally, too: it is available while Redis is away, and after Redis was emptied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlfleet.broker.memory.progress import MemoryProgress
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import KEPT_S, Away, Link
from crawlfleet.model.ids import ExecutionId

_AT_ONCE = 2_000
"""Largest number of executions in one script call: Lua passes fewer than 8,000 arguments at once."""


class RedisProgress:
    def __init__(self, link: Link, local: MemoryProgress, kept: int) -> None:
        self._link = link
        self._local = local
        self._key = link.key("progress")
        self._kept = kept

    async def put(self, told: Mapping[ExecutionId, bytes]) -> None:
        await self._local.put(told)
        items = list(told.items())
        for first in range(0, len(items), _AT_ONCE):
            said = [word for item in items[first : first + _AT_ONCE] for word in item]
            self._link.send(scripts.PUT_ON_BOARD, self._key, self._kept, KEPT_S, *said)

    async def of(self, executions: Sequence[ExecutionId]) -> dict[ExecutionId, bytes]:
        known = await self._local.of(executions)
        if not executions:
            return known
        try:
            told = await self._link.ask("HMGET", self._key, *executions)
        except Away:
            return known
        return known | {one: bytes(said) for one, said in zip(executions, told, strict=True) if said is not None}
