"""How far running executions are, as their nodes told this master last: for screens, and gone with the process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crawlfleet.model import limits
from crawlfleet.model.ids import ExecutionId
from crawlfleet.wire.sync import ProgressBody

_KEPT = 10_000
"""Those of executions that have ended are pushed out by others."""


class Progress:
    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._newest: dict[ExecutionId, bytes] = {}

    def hear(self, told: Iterable[ProgressBody]) -> None:
        for one in told:
            figures = bytes(one.figures)
            if figures.startswith(b"{") and len(figures) <= limits.PROGRESS_BYTES:
                self._newest.pop(one.execution, None)
                self._newest[one.execution] = figures
        while len(self._newest) > self._kept:
            del self._newest[next(iter(self._newest))]

    def of(self, executions: Iterable[ExecutionId]) -> Mapping[ExecutionId, bytes]:
        return {one: self._newest[one] for one in executions if one in self._newest}
