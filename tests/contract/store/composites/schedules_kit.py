"""Schedules for the suites: made, fired as the firer does it, looked at from another connection."""

from dataclasses import replace
from typing import Any

from crawlfleet.model.event import Event
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import CatchUp, Overlap, Schedule, TickStatus, Timing
from crawlfleet.ports.schedule_store import Fired, Firing, HandRun
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.schedules import ticks as times
from testkit.factories import PROJECT, Kit

MINUTE_MS = 60_000
DAY_MS = 86_400_000


def a_schedule(kit: Kit, every_s: int = 60, **fields: Any) -> Schedule:
    number, timing = kit.ids.new_id(), fields.pop("timing", None) or Timing(every_s=every_s)
    coming = times.next_tick(number, timing, kit.now, kit.now)
    usual = Schedule(
        number,
        "nightly",
        PROJECT,
        "echo",
        b'{"task_type":"echo"}',
        timing,
        kit.now,
        CatchUp.ONE,
        Overlap.SKIP,
        False,
        kit.now,
        "somebody",
        kit.now,
        kit.now,
        coming.at,
        coming.due_at,
    )
    return replace(usual, **fields)


async def made(kit: Kit, **fields: Any) -> Schedule:
    schedule = a_schedule(kit, **fields)
    assert await kit.store.add_schedule(lambda: schedule, None, kit.now) == (schedule, False)
    return schedule


async def firings_due(kit: Kit, store: Store | None = None) -> list[Firing]:
    """As the firer makes them of what is due."""
    firings = []
    for schedule in await (store or kit.store).due_schedules(kit.now, 1_000):
        plan = times.plan_ticks(schedule, kit.now)
        held = [] if schedule.held_at is None else [schedule.held_at]
        firings.append(Firing(schedule, plan, {at: kit.new_task() for at in [*held, *plan.ticks]}))
    return firings


async def fire(kit: Kit) -> Fired:
    return await kit.store.fire_schedules(await firings_due(kit), await kit.term(), kit.now)


async def as_it_stands(kit: Kit, schedule: Schedule) -> Schedule:
    found = await kit.second.find_schedule(schedule.id)
    assert found is not None
    return found


async def ticks_of(kit: Kit, schedule: Schedule) -> list[tuple[Instant, TickStatus]]:
    """Oldest first."""
    return [(tick.at, tick.status) for tick in reversed(await kit.second.list_ticks(schedule.id, 10_000))]


async def tasks_of(kit: Kit, schedule: Schedule) -> list[TaskId]:
    return [tick.task for tick in reversed(await kit.second.list_ticks(schedule.id, 10_000)) if tick.task is not None]


async def told_of(kit: Kit, schedule: Schedule) -> list[Event]:
    return [event for event in await kit.events() if event.data.get("schedule") == schedule.id]


def by_hand(kit: Kit, schedule: Schedule, **how: Any) -> HandRun:
    return HandRun(schedule.id, kit.new_task(), how.pop("is_forced", False), **how)
