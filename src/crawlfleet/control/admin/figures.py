"""Task figures for people, alerts and other systems: history, sums of a window, and how many tasks wait where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.errors import InvalidInput
from crawlfleet.model.figures.task_figures import (
    ALL,
    KEEP_MS,
    KINDS,
    MINUTE_S,
    PRIORITY,
    PROJECT,
    QUEUE,
    SPANS,
    TYPE,
    FigurePoint,
    SeriesTotal,
    split_series,
    sum_rows,
)
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.queue import Lane, PriorityClasses
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.task_store import TaskStore

POINTS_MOST = 500
SERIES_MOST = 20
RETRY_CLASS = "retry"
"""Name under which tasks that wait for a retry are counted, beside the priority classes."""
QUEUED_STATUSES = (TaskStatus.PENDING, TaskStatus.WAITING)
_MAX_AGE_S = 1.0
_AGE_FACTOR = 10.0
"""How much longer than it took a count is used again: counting never takes more than a small part of the time, and few
lanes are counted anew for nearly every caller."""
_LANE_NAMES: Mapping[str, Callable[[Lane], str]] = {
    TYPE: lambda lane: lane.requirement.task_type,
    PROJECT: lambda lane: lane.project,
    QUEUE: lambda lane: lane.queue,
    PRIORITY: lambda lane: str(lane.priority),
}


class FiguresStore(FigureStore, TaskStore, Protocol):
    """The part of the store that figures are read from."""


@dataclass(frozen=True, slots=True)
class History:
    """Series over a range of time."""

    span_s: int
    since: Instant
    until: Instant
    series: Mapping[str, Sequence[FigurePoint]]
    gauges: Sequence[FigurePoint]
    """Gauges of the installation, where they were wanted."""


class Figures:
    def __init__(self, *, store: FiguresStore, clock: Clock, configure: Configure) -> None:
        self._store = store
        self._clock = clock
        self._configure = configure
        self._lane_counts: list[tuple[Lane, Mapping[TaskStatus, int]]] = []
        self._counted_at: float | None = None
        self._count_took_s = 0.0
        self._refresh = SingleFlight(self._count_lanes, "count_lanes")

    async def load_history(
        self,
        series: Sequence[str],
        span: str,
        since: Instant | None = None,
        until: Instant | None = None,
        *,
        with_gauges: bool = False,
    ) -> History:
        """Return series over a range of time. Raises InvalidInput for what no series can be, and for a range with too
        many points."""
        names = list(dict.fromkeys(series))
        _check_series(names)
        span_s = SPANS.get(span)
        if span_s is None:
            raise InvalidInput(f"must be one of {', '.join(SPANS)}", field="span")
        span_ms, now = span_s * 1000, self._clock.now()
        last = now if until is None else until
        first = max(0, last - min(KEEP_MS[span_s], POINTS_MOST * span_ms)) if since is None else since
        if first >= last:
            raise InvalidInput("must be before until" if until is not None else "must be in the past", field="since")
        first -= first % span_ms
        if (last - first + span_ms - 1) // span_ms > POINTS_MOST + (since is None):
            raise InvalidInput(
                f"more than {POINTS_MOST} points of a {span}: choose a later since or a longer span", field="since"
            )
        points = await self._store.figure_history(names, span_s, first, last, POINTS_MOST + 1)
        gauges = await self._store.gauge_history(span_s, first, last, POINTS_MOST + 1) if with_gauges else []
        return History(span_s, first, last, points, gauges)

    async def sum_window(self, series: str, window_ms: int) -> Sequence[int]:
        """Return the figures of a series of the last `window_ms`, in whole minutes, the current one included."""
        return (await self.sum_windows([series], window_ms))[series]

    async def sum_windows(self, series: Sequence[str], window_ms: int) -> dict[str, Sequence[int]]:
        now = self._clock.now()
        span_s = next(span_s for span_s, keep in KEEP_MS.items() if keep >= window_ms or span_s == max(KEEP_MS))
        since = now - window_ms
        since -= since % (span_s * 1000)
        limit = (now - since) // (span_s * 1000) + 2
        points = await self._store.figure_history(series, span_s, since, now + MINUTE_S * 1000, limit)
        return {name: sum_rows(point.figures for point in points[name]) for name in series}

    async def load_totals(self, kind: str) -> dict[str, SeriesTotal]:
        """Return the figures of all series of a kind since they began."""
        return await self._store.figure_totals(kind)

    async def count_tasks(self, kind: str) -> dict[str, Counter[TaskStatus]]:
        """Return how many tasks of each name of a kind have each status; at most a second old."""
        await self._refresh_counts()
        name_of = _LANE_NAMES[kind]
        counts: dict[str, Counter[TaskStatus]] = {}
        for lane, in_lane in self._lane_counts:
            counts.setdefault(name_of(lane), Counter()).update(in_lane)
        return counts

    async def count_lanes(self) -> list[tuple[Lane, Mapping[TaskStatus, int]]]:
        """Return how many tasks of each lane have each status; at most a second old."""
        await self._refresh_counts()
        return list(self._lane_counts)

    async def class_sizes(self) -> dict[str, int]:
        """Return how many tasks wait in each priority class, and how many wait for a retry."""
        classes = (await self._configure.load_effective_config(DEFAULT_CLUSTER)).settings.priority_classes
        by_priority = await self.count_tasks(PRIORITY)
        return size_classes(
            classes,
            {(int(priority), status): n for priority, counts in by_priority.items() for status, n in counts.items()},
        )

    async def _refresh_counts(self) -> None:
        counted_at = self._counted_at
        max_age_s = min(_MAX_AGE_S, _AGE_FACTOR * self._count_took_s)
        if counted_at is None or self._clock.monotonic() - counted_at > max_age_s:
            await self._refresh()

    async def _count_lanes(self) -> None:
        counted_at = self._clock.monotonic()
        totals = await self._store.lane_totals()
        lanes = {lane.id: lane for lane in await self._store.load_lanes(list(totals))}
        self._lane_counts = [(lanes[lane], counts) for lane, counts in totals.items()]
        self._counted_at = counted_at
        self._count_took_s = self._clock.monotonic() - counted_at


def size_classes(classes: PriorityClasses, counts: Mapping[tuple[int, TaskStatus], int]) -> dict[str, int]:
    """Add up tasks by priority and status into the classes, and into one of those that wait for a retry."""
    sizes = {**dict.fromkeys(classes._fields, 0), RETRY_CLASS: 0}
    for (priority, status), count in counts.items():
        if status in QUEUED_STATUSES:
            sizes[classes.find_class(priority)] += count
        elif status is TaskStatus.RETRYING:
            sizes[RETRY_CLASS] += count
    return sizes


def _check_series(names: Sequence[str]) -> None:
    if not names:
        raise InvalidInput("name at least one series", field="series")
    if len(names) > SERIES_MOST:
        raise InvalidInput(f"at most {SERIES_MOST} series at once", field="series")
    for name in names:
        if split_series(name) is None:
            detail = f"{name[:100]!r} is no series: use {ALL!r} for all, or KIND:NAME with {', '.join(KINDS)}"
            raise InvalidInput(detail, field="series")
