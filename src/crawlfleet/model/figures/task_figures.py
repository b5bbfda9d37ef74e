"""Task figures: what happened to tasks, as a row of integers that are only ever added up.

The same row is written with the transaction that made the change, folded by the leader into series, and shown to
people: by the history, by metrics and by alerts. The positions in it are part of the stored data: new ones are
appended, so that a shorter row still adds up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from crawlfleet.model.instants import Instant
from crawlfleet.model.status import ErrorClass, ExecutionStatus, TaskStatus

# -- Positions

SUBMITTED = 0
"""Tasks submitted."""
ASSIGNED = 1
"""Executions assigned to nodes."""
STARTED = 2
"""Executions that started."""
COMPLETED, FAILED, TIMEOUT, CANCELLED, LOST, PREEMPTED, RETURNED, PARKED = (
    STARTED + int(status) for status in ExecutionStatus
)
"""Executions that ended, by the status in which they ended."""
RETRIED = PARKED + 1
"""Executions that failed and whose task is retried."""
REOPENED = RETRIED + 1
"""Tasks whose next round a person began."""
TASKS_COMPLETED, TASKS_FAILED, TASKS_TIMEOUT, TASKS_CANCELLED = range(REOPENED + 1, REOPENED + 5)
"""Tasks that became final, by their final status."""
ERRORS = TASKS_CANCELLED + 1
"""First of the positions of executions that failed, by error class."""
RAN_MS = ERRORS + len(ErrorClass)
"""Run times of the executions that completed, failed or timed out, added up."""
WAIT_MS = RAN_MS + 1
"""Waits of the executions that ended, from ready to assigned, added up."""
BOUNDS_MS = (
    *(10, 25, 50, 100, 250, 500),
    *(1_000, 2_500, 5_000, 10_000, 30_000),
    *(60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000),
)
"""Upper bounds of run times and waits; a longer time is counted in one more position."""
RAN_TIMES = WAIT_MS + 1
WAIT_TIMES = RAN_TIMES + len(BOUNDS_MS) + 1
PLACES = WAIT_TIMES + len(BOUNDS_MS) + 1

FIELDS: dict[str, int] = {
    "submitted": SUBMITTED,
    "assigned": ASSIGNED,
    "started": STARTED,
    **{status.word: STARTED + int(status) for status in ExecutionStatus},
    "retried": RETRIED,
    "reopened": REOPENED,
    "tasks_completed": TASKS_COMPLETED,
    "tasks_failed": TASKS_FAILED,
    "tasks_timeout": TASKS_TIMEOUT,
    "tasks_cancelled": TASKS_CANCELLED,
    **{f"error_{error.word}": ERRORS + int(error) - 1 for error in ErrorClass},
    "ran_ms": RAN_MS,
    "wait_ms": WAIT_MS,
}
"""Names of the positions that are shown by name: all but those of the histograms."""

_TASK_ENDS = {
    TaskStatus.COMPLETED: TASKS_COMPLETED,
    TaskStatus.FAILED: TASKS_FAILED,
    TaskStatus.TIMEOUT: TASKS_TIMEOUT,
    TaskStatus.CANCELLED: TASKS_CANCELLED,
}
_RUN_ENDS = frozenset({ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT})

# -- Series

ALL = "*"
"""Series of the whole installation."""
TYPE, PROJECT, QUEUE, PRIORITY, CLUSTER, NODE = "type", "project", "queue", "priority", "cluster", "node"
LANE_KINDS = (TYPE, PROJECT, QUEUE, PRIORITY)
"""Kinds of series that a task's lane gives: every task is in one series of each."""
NODE_KINDS = (CLUSTER, NODE)
"""Kinds of series that a node gives: every execution is in one series of each."""
KINDS = (*LANE_KINDS, *NODE_KINDS)
OTHER = "~other"
"""Name in a kind that stands for all names beyond its limit."""
SERIES_MOST = {TYPE: 50, PROJECT: 200, QUEUE: 50, PRIORITY: 10, CLUSTER: 50, NODE: 1_000}
"""Largest number of names of each kind that have a series of their own."""
IDLE_MS = 86_400_000
"""Span without a change after which a series gives its place to a new name, where there are too many."""

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
SPANS = {"minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S}
KEEP_MS = {MINUTE_S: 6 * 3_600_000, HOUR_S: 14 * 86_400_000, DAY_S: 400 * 86_400_000}
"""Spans for which minutes, hours and days are kept."""

COUNT_MAX = 1 << 62
"""Largest sum that is stored."""


class FigurePoint(NamedTuple):
    """The figures of a series in one minute, hour or day."""

    starts_at: Instant
    """Begin of the span."""
    figures: Sequence[int]


class SeriesTotal(NamedTuple):
    """The figures of a series since its begin."""

    since: Instant
    figures: Sequence[int]


def series_name(kind: str, name: str) -> str:
    return f"{kind}:{name}"


def split_series(series: str) -> tuple[str, str] | None:
    """Split the name of a series into its kind and the name in it; None for a name that no series can have."""
    if series == ALL:
        return ALL, ""
    kind, colon, name = series.partition(":")
    return (kind, name) if colon and name and kind in KINDS else None


def empty_row() -> list[int]:
    return [0] * PLACES


def add_row(sums: list[int], figures: Sequence[int]) -> None:
    for place, count in enumerate(figures[:PLACES]):
        if count:
            sums[place] = min(sums[place] + count, COUNT_MAX)


def sum_rows(rows: Iterable[Sequence[int]]) -> list[int]:
    sums = empty_row()
    for row in rows:
        add_row(sums, row)
    return sums


def trim_row(row: Sequence[int]) -> list[int]:
    """Return a row without the zeros at its end: most rows have few figures."""
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return list(row[:end])


def task_end_place(status: TaskStatus) -> int:
    return _TASK_ENDS[status]


def record_execution_end(
    row: list[int],
    ended: ExecutionStatus,
    *,
    error: ErrorClass | None = None,
    ran_ms: int = 0,
    wait_ms: int = 0,
) -> None:
    """Record an execution that ended. Run times count only where the execution ran to its own end."""
    row[STARTED + int(ended)] += 1
    if error is not None:
        row[ERRORS + int(error) - 1] += 1
    if ended in _RUN_ENDS:
        row[RAN_MS] += max(0, ran_ms)
        row[RAN_TIMES + bisect_left(BOUNDS_MS, ran_ms)] += 1
    row[WAIT_MS] += max(0, wait_ms)
    row[WAIT_TIMES + bisect_left(BOUNDS_MS, wait_ms)] += 1


# -- Gauges: what a leader sampled once a minute, kept in the same spans

GAUGES = ("waiting", "running", "slots", "slots_used", "nodes", "oldest_wait_ms")
"""Names of the gauges: tasks on no node, tasks on nodes, slots of connected nodes, those in use, connected nodes, and
for how long the oldest ready task waits."""
GAUGE_KIND = "gauge"
"""Kind of the series of gauges; they are no series of task figures, and are named only in the store."""


def gauge_sample(values: Sequence[int]) -> list[int]:
    """Make the row of one sample: the number of samples, the sum of each gauge, and the largest value of each."""
    return [1, *values, *values]


def add_gauges(row: Sequence[int], more: Sequence[int]) -> list[int]:
    """Return the row of both together."""
    sums = 1 + len(GAUGES)
    added = [min(COUNT_MAX, a + b) for a, b in zip(row[:sums], more[:sums], strict=True)]
    return [*added, *map(max, row[sums:], more[sums:])]


def average_gauge(row: Sequence[int], gauge: int) -> float:
    return row[1 + gauge] / row[0]


def highest_gauge(row: Sequence[int], gauge: int) -> int:
    return row[1 + len(GAUGES) + gauge]


# -- Readings


def full_row(row: Sequence[int]) -> Sequence[int]:
    return row if len(row) >= PLACES else [*row, *[0] * (PLACES - len(row))]


def count_runs(row: Sequence[int]) -> int:
    """Number of executions that ran to their own end: completed, failed or timed out."""
    return row[COMPLETED] + row[FAILED] + row[TIMEOUT]


def count_task_ends(row: Sequence[int]) -> int:
    """Number of tasks that became completed, failed or timeout; cancelled ones say nothing about success."""
    return row[TASKS_COMPLETED] + row[TASKS_FAILED] + row[TASKS_TIMEOUT]


def failure_rate(row: Sequence[int]) -> float | None:
    """Part of the tasks that ended as failed or timeout; None without an end."""
    ends = count_task_ends(row)
    return (row[TASKS_FAILED] + row[TASKS_TIMEOUT]) / ends if ends else None


def average_run_ms(row: Sequence[int]) -> float | None:
    runs = count_runs(row)
    return row[RAN_MS] / runs if runs else None


def run_times(row: Sequence[int]) -> Sequence[int]:
    return row[RAN_TIMES:WAIT_TIMES]


def wait_times(row: Sequence[int]) -> Sequence[int]:
    return row[WAIT_TIMES:PLACES]


def cumulative_times(times: Sequence[int]) -> list[int]:
    """Return how many times were at most each bound, and last how many there were in all."""
    return list(accumulate(times))


def percentile_ms(times: Sequence[int], part: float) -> float | None:
    """Estimate the time within which this part (0 to 1) of a histogram's times lies; None for an empty histogram.

    Times are taken to be evenly spread between two bounds; of times above all bounds only the last bound is known.
    """
    total = sum(times)
    if not total:
        return None
    wanted, below = part * total, 0
    for place, count in enumerate(times[: len(BOUNDS_MS)]):
        if count and below + count >= wanted:
            lower = BOUNDS_MS[place - 1] if place else 0
            return lower + (BOUNDS_MS[place] - lower) * max(0.0, wanted - below) / count
        below += count
    return float(BOUNDS_MS[-1])
