"""Slots that became free, until the leader asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from crawlfleet.model.ids import ExecutionId, NodeId

_KEPT = 100_000


class MemoryFreedFeed:
    """Bounded: while nobody leads, the oldest fall out, and the next leader counts for itself."""

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
