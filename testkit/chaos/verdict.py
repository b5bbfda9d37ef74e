"""The verdict once all is quiet again: the judgement of the checker, and the checks that only a real run allows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from crawlfleet.model.event import Event, Kind
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.task_store import TaskFilter
from crawlfleet.store import row_codec, task_rows
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.store import SqlStore
from testkit.chaos.load import Load
from testkit.judge import Seen, all_events, final_status, judge
from testkit.violations import Invariant, Limits, Violation

_LOUD = re.compile(r"^(Traceback|.*\bloop_failed\b|.*\bInvariantBroken\b|.*was never retrieved)")
_ALL = 1_000_000


async def verdict(
    engine: QueryEngine, load: Load, seen: Seen, folder: Path, limits: Limits = Limits()
) -> tuple[list[Violation], list[Event]]:
    """Return the violations, and the event log for the summary."""
    store = SqlStore(engine)
    events = await all_events(store)
    tasks = await store.list_tasks(TaskFilter(), _ALL)
    violations = await judge(engine, load.answered, seen, limits)
    violations += _ended_as_expected(tasks, load)
    violations += await _gapless(store, events)
    violations += _final_event_once(tasks, events)
    violations += await _all_closed(store)
    violations += await _own_results(store)
    violations += [Violation(Invariant.ANSWERS_TRUE, wrong) for wrong in load.wrong]
    violations += _logged_errors(folder)
    return violations, events


def _ended_as_expected(tasks: Sequence[TaskRecord], load: Load) -> Iterator[Violation]:
    for batch in load.sent.keys() - load.answered.keys():
        yield Violation(Invariant.NONE_LOST, f"batch {batch} was never answered")
    for task in tasks:
        expected = load.expected.get(task.id)
        if not task.status.is_final:
            why = f": {task.reason}" if task.reason else ""
            yield Violation(Invariant.NONE_LOST, f"{task_text(task.id)} is still {task.status.word}{why}")
        elif expected is not None and task.status is not expected:
            detail = f"{task_text(task.id)} should be {expected.word} and is {task.status.word}: {task.reason}"
            yield Violation(Invariant.ONE_OUTCOME, detail)


async def _gapless(store: SqlStore, events: Sequence[Event]) -> list[Violation]:
    violations = []
    rows = await store.engine.read(lambda tx: tx.fetch("SELECT first, count FROM event_log ORDER BY first"))
    follows = 1
    for first, count in rows:
        if first != follows:
            violations.append(_events(f"number {first} follows {follows - 1}"))
        follows = first + count
    if events and (events[0].number, events[-1].number) != (1, len(events)):
        violations.append(_events(f"{len(events)} events are numbered {events[0].number} to {events[-1].number}"))
    bodies = await store.engine.read(lambda tx: tx.fetch("SELECT body FROM outbox"))
    # Masters that stop elect each other to the last: the next leader would tell of that.
    kinds = [{batch.kind for batch in row_codec.decode_events(bytes(body))} for (body,) in bodies]
    if waiting := sum(entry != {Kind.LEADER_ELECTED} for entry in kinds):
        violations.append(_events(f"{waiting} entries of the outbox were never told"))
    return violations


def _final_event_once(tasks: Sequence[TaskRecord], events: Sequence[Event]) -> Iterator[Violation]:
    """Check that each task became final once, with an event: there is no retry by hand in a chaos run."""
    final_events = Counter(event.data["task"] for event in events if final_status(event) is not None)
    for task in tasks:
        if task.status.is_final and final_events[task.id] != 1:
            yield _events(
                f"{task_text(task.id)} is {task.status.word} and {final_events[task.id]} events say that it ended"
            )


async def _all_closed(store: SqlStore) -> list[Violation]:
    queries = {
        "sessions are open": "SELECT count(*) FROM lease WHERE is_open = 1",
        "tasks are held by nodes": "SELECT count(*) FROM live WHERE node <> 0",
    }
    violations = []
    for what, query in queries.items():
        ((count,),) = await store.engine.read(lambda tx, query=query: tx.fetch(query))  # type: ignore[misc]
        if count:
            violations.append(Violation(Invariant.ALL_GIVEN_BACK, f"{count} {what} though every worker has left"))
    return violations


async def _own_results(store: SqlStore) -> list[Violation]:
    """Check the result of each witness, which names its execution: no other one may have been credited with it."""
    rows = await store.engine.read(lambda tx: tx.fetch(task_rows.all_ended_executions()))
    violations = []
    for execution in map(task_rows.execution_from_row, rows):
        reported = msgspec.json.decode(execution.result).get("execution") if execution.result else None
        if reported is not None and reported != execution_text(execution.id):
            completed_by = execution_text(execution.id)
            detail = f"{task_text(execution.task)} was completed by {completed_by} with the result of {reported}"
            violations.append(Violation(Invariant.ONE_OUTCOME, detail))
    return violations


def _logged_errors(folder: Path) -> Iterator[Violation]:
    """Report tracebacks in logs: an outage is logged in one line, a traceback is a bug."""
    for log in sorted(folder.glob("*.log")):
        loud = [line for line in log.read_text(errors="replace").splitlines() if _LOUD.match(line)]
        if loud:
            yield Violation(Invariant.STAYS_UP, f"{log.name}: {len(loud)} times, first: {loud[0].strip()[:200]}")


def _events(detail: str) -> Violation:
    return Violation(Invariant.EVENTS_WHOLE, detail)
