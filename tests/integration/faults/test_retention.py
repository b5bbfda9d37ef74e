"""Retention when clocks jump and processes end: nothing young goes, and no file is left behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from crawlfleet.control.leader.lane_sweep import FEW_LANES
from crawlfleet.control.loops.pruner import Pruner
from crawlfleet.model.ids import TaskId
from crawlfleet.model.installation.retention import Retention
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.ports.maintenance_store import LANE_SWEEP_EVERY_S
from crawlfleet.results.chunk_folder import FolderChunks
from tests.integration.faults.faults_kit import Fleet

pytestmark = pytest.mark.integration

DAY_MS = 86_400_000
MONTH_MS = 31 * DAY_MS
LASTING = ("task", "done", "execution", "event_log", "idempotency", "heartbeat", "audit", "host", "task_group", "tick")


class Killed(BaseException):
    """The process ends here."""


class KilledAtDrop(FolderChunks):
    async def drop(self, tasks: Sequence[TaskId]) -> None:
        raise Killed


def new_pruner(fleet: Fleet, chunks: FolderChunks | None = None, **kept: int) -> Pruner:
    """That of a master which has just started."""
    return Pruner(
        store=fleet.store, clock=fleet.clock, leadership=fleet.master.lead, retention=Retention(**kept), chunks=chunks
    )


async def run_minutes(fleet: Fleet, pruner: Pruner, minutes: int = 1) -> None:
    for _ in range(minutes):
        fleet.clock.advance(60)
        while await pruner.run_term(await fleet.lead(), fleet.clock.now()):
            pass


async def finished_tasks(fleet: Fleet) -> None:
    await fleet.node()
    await fleet.tasks(3)
    await fleet.settle()
    await fleet.store.relay_events(await fleet.lead(), 1_000)


async def lasting_rows(fleet: Fleet) -> dict[str, object]:
    dump = await fleet.dump()
    return {name: dump[name] for name in LASTING}


async def test_a_clock_a_month_ahead_for_a_minute_deletes_nothing(fleet: Fleet) -> None:
    await finished_tasks(fleet)
    pruner = new_pruner(fleet)
    await run_minutes(fleet, pruner, minutes=70)
    before = await lasting_rows(fleet)
    assert before["task"] and before["event_log"]
    fleet.clock.jump(MONTH_MS)
    await run_minutes(fleet, pruner)
    fleet.clock.jump(-MONTH_MS)
    await run_minutes(fleet, pruner, minutes=10)
    assert await lasting_rows(fleet) == before


@pytest.mark.parametrize("minutes", [1, 30])
async def test_a_master_that_starts_with_a_clock_a_month_ahead_deletes_nothing(fleet: Fleet, minutes: int) -> None:
    await finished_tasks(fleet)
    await run_minutes(fleet, new_pruner(fleet), minutes=70)
    before = await lasting_rows(fleet)
    fleet.clock.jump(MONTH_MS)
    await run_minutes(fleet, new_pruner(fleet), minutes)
    fleet.clock.jump(-MONTH_MS)
    await run_minutes(fleet, new_pruner(fleet))
    assert await lasting_rows(fleet) == before


async def test_a_database_whose_clock_is_behind_decides_what_is_old(fleet: Fleet) -> None:
    """Of many masters one may be wrong for ever: the earlier of the two clocks counts."""
    await finished_tasks(fleet)
    right = fleet.clock.now()

    async def database_clock() -> int:
        return right

    pruner = Pruner(
        store=fleet.store,
        clock=fleet.clock,
        leadership=fleet.master.lead,
        retention=Retention(),
        database_clock=database_clock,
    )
    before = await lasting_rows(fleet)
    fleet.clock.jump(MONTH_MS)
    await run_minutes(fleet, pruner, minutes=200)
    assert await lasting_rows(fleet) == before


async def test_retention_goes_on_an_hour_after_a_machine_was_suspended_for_a_month(fleet: Fleet) -> None:
    await finished_tasks(fleet)
    pruner = new_pruner(fleet)
    await run_minutes(fleet, pruner, minutes=70)
    fleet.clock.jump(MONTH_MS)
    await run_minutes(fleet, pruner, minutes=59)
    assert len((await fleet.dump())["done"]) == 3
    await run_minutes(fleet, pruner, minutes=2)
    assert (await fleet.dump())["done"] == []


async def test_files_of_tasks_go_though_the_process_ended_after_their_rows(fleet: Fleet, tmp_path: Path) -> None:
    await finished_tasks(fleet)
    tasks = [row[0] for row in (await fleet.dump())["done"]]
    chunks = FolderChunks(tmp_path)
    for task in tasks:
        await chunks.put(task, 7, "items", 0, b"{}\n")
    await fleet.store.set_clock_mark(await fleet.lead(), fleet.clock.now())
    with pytest.raises(Killed):
        await run_minutes(fleet, new_pruner(fleet, KilledAtDrop(tmp_path), tasks_ms=1_000))
    assert (await fleet.dump())["done"] == []
    assert [await chunks.count(task, 7, "items") for task in tasks] == [1, 1, 1]
    # Another process, which has never heard of these tasks.
    await run_minutes(fleet, new_pruner(fleet, chunks))
    assert [await chunks.count(task, 7, "items") for task in tasks] == [0, 0, 0]
    assert await fleet.store.unremoved_chunks(10) == []


async def test_unused_lanes_go_whatever_the_wall_clock_says(fleet: Fleet) -> None:
    await finished_tasks(fleet)
    used = {row[2] for row in (await fleet.dump())["done"]}
    seldom = [Lane.with_id("default", f"project {number}", 5, Requirement("echo")) for number in range(FEW_LANES)]
    await fleet.store.ensure_lanes(seldom)
    pruner = new_pruner(fleet)
    for _ in range(2):
        assert {row[0] for row in (await fleet.dump())["lane"]} == used | {lane.id for lane in seldom}
        fleet.clock.jump(MONTH_MS)
        await pruner.run_term(await fleet.lead(), fleet.clock.now())
        fleet.clock.advance(LANE_SWEEP_EVERY_S)
    assert {row[0] for row in (await fleet.dump())["lane"]} == used
    await fleet.tasks(1)
    await fleet.settle()
