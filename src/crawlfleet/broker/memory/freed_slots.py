"""The feed of freed slots, kept in memory until the leader reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from crawlfleet.model.ids import ExecutionId, NodeId

_KEPT = 100_000


class MemoryFreedFeed:
    """A bounded feed of freed slots: while there is no leader, the oldest entries are dropped, and the next leader
    counts the slots itself."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._freed: deque[tuple[NodeId, ExecutionId]] = deque(maxlen=kept)

    async def post(self, freed: Sequence[tuple[NodeId, ExecutionId]]) -> None:
        self._freed.extend(freed)

    async def take_all(self) -> list[tuple[NodeId, ExecutionId]]:
        taken = list(self._freed)
        self._freed.clear()
        return taken

    def forget(self) -> None:
        self._freed.clear()
