"""The progress of running executions, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlfleet.model.ids import ExecutionId

KEPT = 10_000


class MemoryProgress:
    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._newest: dict[ExecutionId, bytes] = {}

    async def put(self, told: Mapping[ExecutionId, bytes]) -> None:
        for execution, figures in told.items():
            self._newest.pop(execution, None)
            self._newest[execution] = figures
        while len(self._newest) > self._kept:
            del self._newest[next(iter(self._newest))]

    async def of(self, executions: Sequence[ExecutionId]) -> dict[ExecutionId, bytes]:
        return {one: self._newest[one] for one in executions if one in self._newest}

    def forget(self) -> None:
        self._newest.clear()
