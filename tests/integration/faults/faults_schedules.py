"""For the fault tests: schedules, fired by hand, and whether each tick had its turn once."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any

import msgspec

from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import Schedule, Tick, TickStatus
from crawlfleet.scheduling.schedules.ticks import nominal_ticks
from crawlfleet.wire.schedules import ScheduleBody
from tests.integration.faults.faults_kit import EVERYTHING, Fleet


async def new_schedule(fleet: Fleet, **fields: Any) -> Schedule:
    said = {"task": {"task_type": "echo"}, **({} if "cron" in fields else {"every_s": 60}), **fields}
    body = msgspec.json.decode(json.dumps(said), type=ScheduleBody)
    return (await fleet.master.schedules.create_schedule(body, by="somebody")).schedule


async def fire(fleet: Fleet) -> None:
    """The leader's turn: pass after pass, until one leaves nothing to do."""
    while await fleet.master.firer.run_once(fleet.clock.now()):
        pass


async def ticks_of(fleet: Fleet, schedule: Schedule) -> dict[Instant, Tick]:
    """Without runs by hand."""
    found = await fleet.store.list_ticks(schedule.id, EVERYTHING)
    return {tick.at: tick for tick in found if tick.status is not TickStatus.BY_HAND}


async def fired_ticks(fleet: Fleet, schedule: Schedule) -> dict[Instant, TaskId]:
    return {at: tick.task for at, tick in (await ticks_of(fleet, schedule)).items() if tick.task is not None}


async def check_ticks(fleet: Fleet, schedule: Schedule, count: int | None = None) -> None:
    """Every tick that has come is there once, and has its own task if it fired."""
    after = await fleet.store.find_schedule(schedule.id)
    assert after is not None
    wanted = nominal_ticks(schedule.timing, schedule.anchor_at, schedule.created_at)
    named = list(takewhile(lambda at: at <= after.fired_until, wanted))
    found = await ticks_of(fleet, schedule)
    assert sorted(found) == named
    assert count is None or len(named) == count
    tasks = list((await fired_ticks(fleet, schedule)).values())
    assert len(set(tasks)) == len(tasks)
    assert len(await fleet.store.load_tasks(tasks)) == len(tasks)
