"""Task figures counted again: from the rows of executions, and from events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from crawlfleet.model.event import Event, Kind
from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.figures import task_figures as figures
from crawlfleet.model.figures.task_figures import ALL, FIELDS
from crawlfleet.model.status import ExecutionStatus, TaskStatus
from crawlfleet.store.admin.task_figures import decode_row
from crawlfleet.store.store import SqlStore
from crawlfleet.store.tasks.transaction_log import decode_delta

_STORED = f"SELECT 0, body FROM figure_total WHERE series = '{ALL}' UNION ALL SELECT 1, body FROM figure_delta"
_RUN_ENDS = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT)
_EVENT_PLACES = {
    Kind.TASK_SUBMITTED: figures.SUBMITTED,
    Kind.TASK_ASSIGNED: figures.ASSIGNED,
    Kind.TASK_REOPENED: figures.REOPENED,
    Kind.TASK_RETRYING: figures.RETRIED,
    Kind.TASK_PARKED: figures.PARKED,
    Kind.TASK_COMPLETED: figures.TASKS_COMPLETED,
    Kind.TASK_FAILED: figures.TASKS_FAILED,
    Kind.TASK_TIMEOUT: figures.TASKS_TIMEOUT,
    Kind.TASK_CANCELLED: figures.TASKS_CANCELLED,
}
"""Positions that one kind of event counts alone."""
_MAY_END_AN_EXECUTION = (
    Kind.TASK_COMPLETED,
    Kind.TASK_FAILED,
    Kind.TASK_TIMEOUT,
    Kind.TASK_CANCELLED,
    Kind.TASK_RETRYING,
    Kind.TASK_PARKED,
    Kind.TASK_REASSIGN,
)


async def stored_figures(store: SqlStore) -> list[int]:
    """The figures of the whole installation: folded ones, and deltas that are not folded yet, in one snapshot."""
    sums = figures.empty_row()
    for is_delta, body in await store.engine.read(lambda tx: tx.fetch(_STORED)):
        for row in _delta_rows(bytes(body)) if is_delta else [decode_row(bytes(body))]:
            figures.add_row(sums, row)
    return sums


def execution_differences(stored: Sequence[int], executions: Iterable[ExecutionRecord]) -> list[str]:
    """What the figures say otherwise than the rows of all executions that ended."""
    rows = figures.empty_row()
    for execution in executions:
        if execution.status is None or execution.ended_at is None:
            continue
        rows[figures.STARTED + int(execution.status)] += 1
        if execution.failure is not None:
            rows[figures.ERRORS + int(execution.failure.error) - 1] += 1
        if execution.status in _RUN_ENDS:
            started_at = execution.assigned_at if execution.started_at is None else execution.started_at
            rows[figures.RAN_MS] += max(0, execution.ended_at - started_at)
    places = [*range(figures.COMPLETED, figures.PARKED + 1), *range(figures.ERRORS, figures.RAN_MS + 1)]
    return _differences(stored, rows, places, "rows")


def event_differences(stored: Sequence[int], events: Iterable[Event]) -> list[str]:
    """What the figures say otherwise than all events so far."""
    counted = figures.empty_row()
    ended: Counter[str] = Counter()
    for event in events:
        kind = Kind(event.kind)
        if kind in _EVENT_PLACES:
            counted[_EVENT_PLACES[kind]] += 1
        if kind in _MAY_END_AN_EXECUTION and event.data.get("execution"):
            ended[kind] += 1
    differences = _differences(stored, counted, _EVENT_PLACES.values(), "events")
    by_stop = stored[figures.LOST] + stored[figures.PREEMPTED] + stored[figures.RETURNED]
    if by_stop != ended[Kind.TASK_REASSIGN]:
        differences.append(f"executions that were stopped: {by_stop}, the events {ended[Kind.TASK_REASSIGN]}")
    if stored[figures.COMPLETED] != ended[Kind.TASK_COMPLETED]:
        differences.append(f"completed: {stored[figures.COMPLETED]}, the events {ended[Kind.TASK_COMPLETED]}")
    if count_ends(stored) != sum(ended.values()):
        differences.append(f"executions that ended: {count_ends(stored)}, the events {sum(ended.values())}")
    return differences


def inner_differences(stored: Sequence[int], totals: Mapping[TaskStatus, int], removed: int = 0) -> list[str]:
    """What the figures say otherwise than themselves, or than the number of tasks there are; `removed`: tasks that
    were deleted."""
    tasks_ended = sum(stored[figures.TASKS_COMPLETED : figures.TASKS_CANCELLED + 1])
    live = sum(count for status, count in totals.items() if not status.is_final)
    held = sum(count for status, count in totals.items() if status.is_held)
    pairs = {
        "tasks that are live": (stored[figures.SUBMITTED] + stored[figures.REOPENED] - tasks_ended, live),
        "tasks in all": (stored[figures.SUBMITTED] - removed, sum(totals.values())),
        "executions that live": (stored[figures.ASSIGNED] - count_ends(stored), held),
        "waits": (sum(figures.wait_times(stored)), count_ends(stored)),
        "run times": (sum(figures.run_times(stored)), figures.count_runs(stored)),
    }
    return [f"{name}: {counted}, and {expected}" for name, (counted, expected) in pairs.items() if counted != expected]


def count_ends(row: Sequence[int]) -> int:
    return sum(row[figures.COMPLETED : figures.PARKED + 1])


def _differences(stored: Sequence[int], counted: Sequence[int], places: Iterable[int], source: str) -> list[str]:
    names = {place: name for name, place in FIELDS.items()}
    return [
        f"{names[place]}: the figures say {stored[place]}, the {source} {counted[place]}"
        for place in sorted(places)
        if stored[place] != counted[place]
    ]


def _delta_rows(body: bytes) -> list[list[int]]:
    return [row for _, _, row in decode_delta(body)[1]]
