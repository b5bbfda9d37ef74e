"""The verdict on a run: nothing to say about a good one, and each way to break it is seen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlfleet.model.event import Event, Kind
from crawlfleet.model.status import TaskStatus
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.store import SqlStore
from testkit.chaos.faults import LeaderKill
from testkit.chaos.load import Load
from testkit.chaos.meetings import meetings
from testkit.chaos.resources import GROWTH_BYTES, GROWTH_FILES, WARM_S, Sample, growth
from testkit.chaos.summary import late_placements, recoveries
from testkit.chaos.verdict import verdict
from testkit.chaos.witness import MET
from testkit.factories import Kit
from testkit.history import Fault, FaultInjected
from testkit.judge import Seen
from testkit.violations import Invariant
from tests.unit.store.store_kit import sqlite_kit

NODES = {"worker-0": 0x31, "worker-1": 0x32}


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    """Three tasks that were submitted and completed, by a node that has left."""
    async with sqlite_kit(tmp_path) as kit:
        term, node = await kit.term(), await kit.node()
        tasks = await kit.submit(3)
        await kit.complete(*await kit.assign(tasks, node))
        await kit.end(node)
        await kit.store.relay_events(term, 100)
        await kit.store.fold_counters(term)
        yield kit


def _engine(kit: Kit) -> QueryEngine:
    assert isinstance(kit.store, SqlStore)
    return kit.store.engine


async def _load(kit: Kit) -> Load:
    load = Load([], "", 0, Path())
    ids = [row[0] for row in await _engine(kit).read(lambda tx: tx.fetch("SELECT id FROM task ORDER BY id"))]
    load.sent["batch"] = len(ids)
    load.answered["batch"] = ids
    load.expected.update(dict.fromkeys(ids, TaskStatus.COMPLETED))
    return load


async def _said(kit: Kit, load: Load, folder: Path) -> set[Invariant]:
    found, _ = await verdict(_engine(kit), load, Seen(), folder)
    return {violation.invariant for violation in found}


async def test_nothing_is_said_of_a_good_run(kit: Kit, tmp_path: Path) -> None:
    assert await _said(kit, await _load(kit), tmp_path) == set()


_UNTOLD = """INSERT INTO outbox (at, count, body) VALUES (1, 1, CAST('[["task.ready",{},{}]]' AS BLOB))"""


@pytest.mark.parametrize(
    ("harm", "seen"),
    [
        ("DELETE FROM event_log WHERE CAST(body AS TEXT) LIKE '%task.completed%'", {Invariant.EVENTS_WHOLE}),
        ("UPDATE event_log SET first = first + 1 WHERE first > 3", {Invariant.EVENTS_WHOLE}),
        (_UNTOLD, {Invariant.EVENTS_WHOLE}),
        ("UPDATE lease SET is_open = 1", {Invariant.ALL_GIVEN_BACK}),
        ("DELETE FROM done WHERE id = (SELECT max(id) FROM done)", {Invariant.NONE_LOST, Invariant.COUNTERS_TRUE}),
        ("UPDATE done SET status = 11 WHERE id = (SELECT max(id) FROM done)", {Invariant.ONE_OUTCOME}),
        ('UPDATE done SET result = CAST(\'{"execution": "exec-1"}\' AS BLOB)', {Invariant.ONE_OUTCOME}),
        ("UPDATE lane_counter SET n = n + 1", {Invariant.COUNTERS_TRUE}),
        ("DELETE FROM figure_total", {Invariant.COUNTERS_TRUE}),
    ],
)
async def test_a_harmed_store_is_seen(kit: Kit, tmp_path: Path, harm: str, seen: set[Invariant]) -> None:
    load = await _load(kit)
    await _engine(kit).write(lambda tx: tx.execute(harm))
    assert await _said(kit, load, tmp_path) >= seen


async def test_what_the_clients_saw_counts(kit: Kit, tmp_path: Path) -> None:
    load = await _load(kit)
    load.wrong.append("look at task-1 was answered 404")
    assert await _said(kit, load, tmp_path) == {Invariant.ANSWERS_TRUE}
    load.wrong.clear()
    load.sent["another"] = 1
    assert await _said(kit, load, tmp_path) == {Invariant.NONE_LOST}


async def test_a_traceback_in_a_log_is_a_bug(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "master-0.1.log").write_text("store_away error=gone\nTraceback (most recent call last):\n")
    assert await _said(kit, await _load(kit), tmp_path) == {Invariant.STAYS_UP}


def test_two_executions_that_met_are_told_unless_one_was_frozen(tmp_path: Path) -> None:
    (tmp_path / MET).write_text("12.500\ttask-1\texec-2\texec-1 in /data/worker-1/work/exec-1\n")
    frozen = FaultInjected(500, Fault.NODE_PAUSE, NODES["worker-1"], 2_000)
    (told,) = meetings(tmp_path, NODES, [], since=10_000)
    assert (told.invariant, told.at) == (Invariant.ONE_OUTCOME, 2_500)
    assert not list(meetings(tmp_path, NODES, [frozen], since=10_000))
    other = FaultInjected(500, Fault.NODE_PAUSE, NODES["worker-0"], 2_000)
    earlier = FaultInjected(100, Fault.NODE_PAUSE, NODES["worker-1"], 200)
    assert list(meetings(tmp_path, NODES, [other, earlier], since=10_000)) == [told]


def test_recovery_counts_from_the_kill_to_the_first_task_of_the_next_leader() -> None:
    events = [
        Event(1, 900, Kind.LEADER_ELECTED, {}),
        Event(2, 1_100, Kind.TASK_ASSIGNED, {}),
        Event(3, 4_000, Kind.LEADER_ELECTED, {}),
        Event(4, 4_200, Kind.TASK_ASSIGNED, {}),
    ]
    (first, never) = recoveries([LeaderKill(1_000, "a"), LeaderKill(5_000, "b")], events)
    assert (first.elected_s, first.placed_s) == (3.0, 3.2)
    assert (never.elected_s, never.placed_s) == (None, None)
    assert not list(late_placements([first, never], since=0))
    slow = [*events[:2], Event(3, 6_100, Kind.LEADER_ELECTED, {}), Event(4, 6_100, Kind.TASK_ASSIGNED, {})]
    (late,) = late_placements(recoveries([LeaderKill(1_000, "a")], slow), since=500)
    assert (late.invariant, late.at) == (Invariant.RECOVERY_BOUNDED, 500)


def test_a_process_that_grows_after_it_is_warm_is_told() -> None:
    cold, warm = Sample(0, 0, 0), Sample(WARM_S, 100 << 20, 50)
    assert not list(growth("master-0", [cold, warm, warm._replace(at=100)]))
    (memory,) = growth("master-0", [cold, warm, Sample(100, (101 << 20) + GROWTH_BYTES, 50)])
    (files,) = growth("master-0", [cold, warm, Sample(100, 100 << 20, 51 + GROWTH_FILES)])
    assert memory.invariant is files.invariant is Invariant.RESOURCES_FLAT
