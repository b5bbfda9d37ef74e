"""The feed of freed slots, kept in memory until the leader reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from crawlfleet.model.ids import ExecutionId, NodeId

_MAX_SLOTS = 100_000


class MemoryFreedSlotFeed:
    """A bounded feed of freed slots: while there is no leader, the oldest entries are dropped, and the next leader
    counts the slots itself."""

    def __init__(self, max_slots: int = _MAX_SLOTS) -> None:
        self._freed: deque[tuple[NodeId, ExecutionId]] = deque(maxlen=max_slots)

    async def post_slots(self, freed: Sequence[tuple[NodeId, ExecutionId]]) -> None:
        self._freed.extend(freed)

    async def pop_slots(self) -> list[tuple[NodeId, ExecutionId]]:
        popped = list(self._freed)
        self._freed.clear()
        return popped

    def forget_all(self) -> None:
        self._freed.clear()
