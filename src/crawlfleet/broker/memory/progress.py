"""The progress of running executions, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlfleet.model.ids import ExecutionId

MAX_EXECUTIONS = 10_000


class MemoryProgress:
    def __init__(self, max_executions: int = MAX_EXECUTIONS) -> None:
        self._max_executions = max_executions
        self._newest: dict[ExecutionId, bytes] = {}

    async def put_progress(self, figures: Mapping[ExecutionId, bytes]) -> None:
        for execution, progress in figures.items():
            self._newest.pop(execution, None)
            self._newest[execution] = progress
        while len(self._newest) > self._max_executions:
            del self._newest[next(iter(self._newest))]

    async def load_progress(self, executions: Sequence[ExecutionId]) -> dict[ExecutionId, bytes]:
        return {execution: self._newest[execution] for execution in executions if execution in self._newest}

    def forget_all(self) -> None:
        self._newest.clear()
