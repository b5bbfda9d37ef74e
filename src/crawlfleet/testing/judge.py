"""Judges an installation that ran in real processes, from its own store once the masters are gone.

The event log tells what happened in which order; rows tell what is there at the end. The same checker as in the
simulation compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from crawlfleet.model.event import Event, Kind
from crawlfleet.model.ids import TaskId
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.reads import TaskFilter
from crawlfleet.store import codec
from crawlfleet.store.query import QueryEngine
from crawlfleet.store.store import SqlStore
from crawlfleet.testing.checker import check
from crawlfleet.testing.history import (
    Assigned,
    FinalState,
    HeldSlots,
    History,
    OutcomeAccepted,
    SubmitAnswered,
    SubmitSent,
    TaskState,
)
from crawlfleet.testing.violations import Violation

_PAGE = 10_000
_FINAL_KINDS = {
    Kind.TASK_COMPLETED: TaskStatus.COMPLETED,
    Kind.TASK_FAILED: TaskStatus.FAILED,
    Kind.TASK_TIMEOUT: TaskStatus.TIMEOUT,
    Kind.TASK_CANCELLED: TaskStatus.CANCELLED,
}


async def judge(engine: QueryEngine, answered: Mapping[str, Sequence[TaskId]]) -> list[Violation]:
    """`answered`: the tasks of each batch that a client was told of."""
    store = SqlStore(engine)
    history = History()
    for batch, tasks in answered.items():
        history.add(SubmitSent(0, batch, len(tasks)))
        history.add(SubmitAnswered(0, batch, tuple(tasks)))
    for event in await _events(store):
        _record(history, event)
    return check(history, await _final_state(store, answered))


async def _events(store: SqlStore) -> list[Event]:
    events: list[Event] = []
    while page := await store.events_after(events[-1].number if events else 0, _PAGE):
        events += page
    return events


def _record(history: History, event: Event) -> None:
    data: Mapping[str, Any] = event.data
    if event.kind == Kind.TASK_ASSIGNED:
        history.add(Assigned(event.at, data["task"], 1, data["execution"], data["node"], 0))
    elif event.kind in _FINAL_KINDS and data.get("execution"):
        status = _FINAL_KINDS[Kind(event.kind)]
        history.add(OutcomeAccepted(event.at, data["task"], data.get("round", 1), data["execution"], status))


async def _final_state(store: SqlStore, answered: Mapping[str, Sequence[TaskId]]) -> FinalState:
    letters = {letter.task for letter in await store.dead_letters(1_000_000)}
    tasks: dict[TaskId, TaskState] = {}
    for record in await store.list_tasks(TaskFilter(), 1_000_000):
        spec = msgspec.json.decode(record.spec) if record.spec else {}
        tasks[record.id] = TaskState(
            record.status, record.round, record.retries, record.losses, record.deaths,
            spec.get("retry", {}).get("max_retries", 3), record.id in letters, record.reason,
        )  # fmt: skip
    rows = await store.engine.read(lambda tx: tx.fetch(codec.all_ended_executions()))
    held = await store.held([node.id for node in await store.nodes()])
    return FinalState(
        at=0, tasks=tasks, batches=answered, executions=[codec.execution_record(row) for row in rows],
        counters=await store.totals(), rows=await store.count_rows(),
        slots={node: HeldSlots(len(tasks_held), 0) for node, tasks_held in held.items()},
    )  # fmt: skip
