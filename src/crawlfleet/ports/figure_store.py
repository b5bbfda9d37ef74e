"""Task figures and counters: what happened to tasks, in series, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from crawlfleet.model.figures.task_figures import FigurePoint, SeriesTotal
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.status import TaskStatus

LaneTotals = Mapping[LaneId, Mapping[TaskStatus, int]]
"""Number of tasks by lane and status, without zeros."""


class FigureStore(Protocol):
    """The counters of tasks and the series of task figures, which the leader folds from the deltas of transactions.

    A delta is written in the transaction of the change itself, and deleted in the one that adds it up.
    """

    async def fold_counters(self, term: int, limit: int = 1_000) -> int:
        """Fold figure deltas into the counters and the series; returns the number of folded deltas."""
        ...

    async def task_totals(self, project: str | None = None) -> dict[TaskStatus, int]:
        """Return the number of tasks by status from the counters; exact at any time, in constant time."""
        ...

    async def lane_totals(self) -> LaneTotals:
        """Return the number of tasks by lane and status from the counters; exact at any time."""
        ...

    async def count_rows(self, project: str | None = None) -> dict[TaskStatus, int]:
        """Return what `task_totals` does by counting rows: slow, for the reconciler and for checks."""
        ...

    async def count_lane_rows(self) -> LaneTotals:
        """Return what `lane_totals` does by counting rows: slow, for checks."""
        ...

    async def find_drift(self) -> LaneTotals:
        """Return by how much each counter is too small, counted in one snapshot with its rows: slow, for repairs."""
        ...

    async def correct_counters(self, drift: LaneTotals, now: Instant) -> None:
        """Add the drift to the counters, as a delta that is folded like any other. It changes no task."""
        ...

    async def figure_history(
        self, series: Sequence[str], span_s: int, since: Instant, until: Instant, limit: int
    ) -> dict[str, list[FigurePoint]]:
        """Return the points of each series that begin in [since, until), oldest first; at most the `limit` newest of
        each. Spans in which nothing happened have no point."""
        ...

    async def put_gauges(self, term: int, sampled_at: Instant, values: Sequence[int]) -> None:
        """Add a sample of the gauges to its minute, hour and day."""
        ...

    async def gauge_history(self, span_s: int, since: Instant, until: Instant, limit: int) -> list[FigurePoint]:
        """Return the gauges of the spans that begin in [since, until), oldest first; at most the `limit` newest."""
        ...

    async def oldest_ready(self) -> Instant | None:
        """Return since when the oldest ready task waits, among the tasks that are first in their lanes; None without
        any."""
        ...

    async def figure_totals(self, kind: str | None = None) -> dict[str, SeriesTotal]:
        """Return the sums of all series of a kind since their begin; None for those of every kind."""
        ...
