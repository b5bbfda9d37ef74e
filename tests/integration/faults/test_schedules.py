"""Schedules under faults: leaders that die or only think they lead, clocks that jump, thousands due at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from crawlfleet.errors import OutcomeUnknown
from crawlfleet.model.schedule import TickStatus
from crawlfleet.model.status import TaskStatus
from crawlfleet.store import schema
from crawlfleet.store.composites.schedules import SCHEDULES
from tests.integration.faults.faults_crashes import Failpoints, Point, bury
from tests.integration.faults.faults_kit import Fleet
from tests.integration.faults.faults_schedules import check_ticks, fire, fired_ticks, new_schedule, ticks_of
from tests.integration.faults.faults_stores import Stores, UnansweredOnce, store_between

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


@pytest.mark.parametrize("is_after", [False, True], ids=["before a commit", "after a commit"])
async def test_many_due_at_once_are_each_fired_once_though_the_leader_dies(stores: Stores, is_after: bool) -> None:
    living = asyncio.all_tasks()
    count = 10_000 if stores.is_quick and is_after else 2_000
    fleet = await Fleet(await stores.fresh()).begun()
    one = await new_schedule(fleet, cron="0 0 * * *")
    numbers = range(one.id + 1, one.id + count)
    rows = SCHEDULES.to_rows(replace(one, id=number) for number in numbers)
    await fleet.store.engine.write(lambda tx: tx.insert(schema.schedule, SCHEDULES.columns, rows))
    failpoints = Failpoints(Point(call=7, is_after=is_after))
    await fleet.start(*failpoints.ports(fleet.store, fleet.new_broker()))
    assert one.next_at is not None
    fleet.clock.jump(one.next_at - fleet.clock.now())
    assert await failpoints.run(lambda: fire(fleet))
    assert "fire_schedules" in failpoints.calls
    await fleet.start()
    await fire(fleet)
    found = await fleet.store.engine.read(lambda tx: tx.fetch("SELECT schedule, at, status, task FROM tick"))
    assert {row[0] for row in found} == {one.id, *numbers}
    assert {row[1:3] for row in found} == {(one.next_at, int(TickStatus.FIRED))}
    assert len({row[3] for row in found}) == len(found) == count
    assert await fleet.store.count_rows() == await fleet.store.task_totals() == {TaskStatus.PENDING: count}
    await bury(living)


async def test_clocks_that_jump_fire_every_tick_once(fleet: Fleet) -> None:
    schedule = await new_schedule(fleet, cron="*/10 * * * *", catch_up="all", overlap="allow")
    for jump_ms in (0, HOUR_MS, -HOUR_MS, -HOUR_MS, 0, 2 * HOUR_MS, -1):
        fleet.clock.jump(jump_ms)
        for _ in range(3):
            fleet.clock.advance(600)
            await fire(fleet)
    await check_ticks(fleet, schedule)
    assert len(await fired_ticks(fleet, schedule)) == len(await ticks_of(fleet, schedule)) > 10


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
async def test_a_schedule_paused_and_changed_by_a_wrong_clock_repeats_nothing(fleet: Fleet, jump_ms: int) -> None:
    schedule = await new_schedule(fleet, cron="*/10 * * * *", overlap="allow")
    fleet.clock.advance(1_200)
    await fire(fleet)
    fleet.clock.jump(jump_ms)
    await fleet.master.schedules.pause_schedule(schedule.id)
    await fleet.master.schedules.resume_schedule(schedule.id)
    await fire(fleet)
    fleet.clock.jump(-jump_ms)
    for _ in range(20):
        fleet.clock.advance(600)
        await fire(fleet)
    found = await fired_ticks(fleet, schedule)
    assert len(set(found.values())) == len(found)
    assert len(await fleet.store.load_tasks(list(found.values()))) == sum((await fleet.store.count_rows()).values())


async def test_a_batch_whose_answer_was_lost_is_not_fired_again(fleet: Fleet) -> None:
    schedules = [await new_schedule(fleet) for _ in range(5)]
    await fleet.start(store_between(fleet.store, UnansweredOnce("fire_schedules")))
    fleet.clock.advance(60)
    with pytest.raises(OutcomeUnknown):
        await fire(fleet)
    await fire(fleet)
    for schedule in schedules:
        await check_ticks(fleet, schedule, 1)
    assert await fleet.store.count_rows() == {TaskStatus.PENDING: 5}


async def test_a_template_that_can_no_longer_be_submitted_is_told_and_harms_nobody(fleet: Fleet) -> None:
    good, bad = await new_schedule(fleet), await new_schedule(fleet, task={"task_type": "echo", "parameters": {"n": 1}})
    fleet.master.task_types.add_type("echo", {"properties": {"n": {"type": "string"}}})
    fleet.clock.advance(60)
    await fire(fleet)
    assert len(await fired_ticks(fleet, good)) == 1
    assert [tick.status for tick in (await ticks_of(fleet, bad)).values()] == [TickStatus.REFUSED]
    after = await fleet.store.find_schedule(bad.id)
    assert after is not None
    assert after.last_error is not None
    assert after.last_error.startswith("task.parameters.n: ")


async def test_a_held_tick_fires_when_the_task_before_it_has_ended(fleet: Fleet) -> None:
    await fleet.node()
    schedule = await new_schedule(fleet, overlap="queue")
    for _ in range(2):
        fleet.clock.advance(60)
        await fire(fleet)
    assert len(await fired_ticks(fleet, schedule)) == 1
    await fleet.settle()
    await fire(fleet)
    assert len(await fired_ticks(fleet, schedule)) >= 2


async def test_what_a_full_queue_cannot_take_is_told(fleet: Fleet) -> None:
    schedule = await new_schedule(fleet)
    await fleet.master.configure.put_config("default", {"max_waiting": 0}, "somebody")
    fleet.clock.advance(60)
    await fire(fleet)
    ((_, tick),) = (await ticks_of(fleet, schedule)).items()
    assert tick.status is TickStatus.REFUSED
    assert tick.reason is not None
    assert "limit" in tick.reason
