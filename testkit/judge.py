"""Judges an installation that ran in real processes, from its own store after the masters have ended.

The event log contains what happened in which order; the rows are the final state. The same checker as in the
simulation compares them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from crawlfleet.model.event import Event, Kind
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.composite_store import GroupStore
from crawlfleet.ports.task_store import TaskFilter
from crawlfleet.store import task_rows
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.store import SqlStore
from testkit.checker import check
from testkit.figure_recount import stored_figures
from testkit.history import (
    Assigned,
    FinalState,
    GroupState,
    HeldSlots,
    History,
    LeaderElected,
    OutcomeAccepted,
    Record,
    SubmitAnswered,
    SubmitSent,
    TaskState,
)
from testkit.violations import Limits, Violation

_PAGE = 10_000
_FINAL_KINDS = {
    Kind.TASK_COMPLETED: TaskStatus.COMPLETED,
    Kind.TASK_FAILED: TaskStatus.FAILED,
    Kind.TASK_TIMEOUT: TaskStatus.TIMEOUT,
    Kind.TASK_CANCELLED: TaskStatus.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """The observations of a run from outside, with their times, which count from `since`."""

    since: Instant = 0
    until: Instant = 0
    records: Sequence[Record] = ()
    """Faults, and the starts and kills of nodes and masters."""
    sent: Mapping[str, int] = field(default_factory=dict)
    """Number of tasks of each batch, whose name its tasks carry; also of batches that were not answered."""


async def judge(
    engine: QueryEngine, answered: Mapping[str, Sequence[TaskId]], seen: Seen = Seen(), limits: Limits = Limits()
) -> list[Violation]:
    """Judge a run. `answered` holds the tasks of each batch that a client received in an answer."""
    store = SqlStore(engine)
    history = History()
    for batch, size in {**{batch: len(tasks) for batch, tasks in answered.items()}, **seen.sent}.items():
        history.add(SubmitSent(0, batch, size))
    for batch, tasks in answered.items():
        history.add(SubmitAnswered(0, batch, tuple(tasks)))
    for record in seen.records:
        history.add(record)
    for event in await all_events(store):
        _record(history, event, seen.since)
    return check(history, await _final_state(store, answered, seen), limits)


async def all_events(store: SqlStore) -> list[Event]:
    events: list[Event] = []
    while page := await store.events_after(events[-1].number if events else 0, _PAGE):
        events += page
    return events


def final_status(event: Event) -> TaskStatus | None:
    """Return the final status that the event records; None for an event that records none."""
    return _FINAL_KINDS[Kind(event.kind)] if event.kind in _FINAL_KINDS else None


def _record(history: History, event: Event, since: Instant) -> None:
    data: Mapping[str, Any] = event.data
    moment = event.at - since
    if event.kind == Kind.TASK_ASSIGNED:
        history.add(Assigned(moment, data["task"], 1, data["execution"], data["node"], 0))
    elif event.kind == Kind.LEADER_ELECTED:
        # Only the name, without the number of the start: a master keeps its name over restarts.
        history.add(LeaderElected(moment, data["term"], data["master"].partition("#")[0]))
    elif (status := final_status(event)) is not None and data.get("execution"):
        history.add(OutcomeAccepted(moment, data["task"], data.get("round", 1), data["execution"], status))


async def group_states(store: GroupStore) -> dict[GroupId, GroupState]:
    groups = await store.list_groups(100_000)
    counts = await store.group_counts([group.id for group in groups])
    return {
        group.id: GroupState(counts[group.id], await store.count_members(group.id), group.finished_at is not None)
        for group in groups
    }


async def _final_state(store: SqlStore, answered: Mapping[str, Sequence[TaskId]], seen: Seen) -> FinalState:
    letters = {letter.task for letter in await store.dead_letters(1_000_000)}
    tasks: dict[TaskId, TaskState] = {}
    named: dict[str, list[TaskId]] = defaultdict(list)
    for record in await store.list_tasks(TaskFilter(), 1_000_000):
        spec = msgspec.json.decode(record.spec) if record.spec else {}
        tasks[record.id] = TaskState(
            record.status,
            record.round,
            record.retries,
            record.losses,
            record.deaths,
            spec.get("retry", {}).get("max_retries", 3),
            record.id in letters,
            record.reason,
        )
        named[record.name or ""].append(record.id)
    rows = await store.engine.read(lambda tx: tx.fetch(task_rows.all_ended_executions()))
    held = await store.held_tasks([node.id for node in await store.load_nodes()])
    return FinalState(
        at=seen.until - seen.since,
        tasks=tasks,
        batches=_only(named, seen.sent) if seen.sent else answered,
        executions=[task_rows.execution_from_row(row) for row in rows],
        counters=await store.task_totals(),
        rows=await store.count_rows(),
        figures=await stored_figures(store),
        groups=await group_states(store),
        slots={node: HeldSlots(len(tasks_held), 0) for node, tasks_held in held.items()},
    )


def _only(named: Mapping[str, Sequence[TaskId]], batches: Iterable[str]) -> dict[str, Sequence[TaskId]]:
    return {batch: named.get(batch, ()) for batch in batches}
