"""Schedules: kept, listed, changed, removed, forgotten."""

from dataclasses import replace

import pytest

from crawlfleet.errors import NotFound
from crawlfleet.model.schedule import Overlap, Schedule, TickStatus, Timing
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.schedule_store import HandRun, ScheduleFilter
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Claim, IdempotencyMismatch
from testkit.factories import Kit
from tests.contract.store.composites.schedules_kit import (
    DAY_MS,
    MINUTE_MS,
    a_schedule,
    as_it_stands,
    fire,
    firings_due,
    made,
    tasks_of,
    ticks_of,
    told_of,
)

# -- kept


async def a_schedule_is_kept_as_it_was_made(store: Store, kit: Kit) -> None:
    timing = Timing(
        cron="0 9 * * 1-5", time_zone="Europe/Berlin", starts_at=kit.now, ends_at=kit.now + DAY_MS * 9, jitter_s=30
    )
    schedule = await made(kit, timing=timing, recent=(5, 9), held_at=7_000, held_for=9, last_error="it broke")
    assert await as_it_stands(kit, schedule) == schedule
    assert await kit.second.find_schedule(schedule.id + 1) is None
    assert [event.kind for event in await told_of(kit, schedule)] == ["schedule.created"]


async def schedules_are_listed_newest_first_by_page_and_filter(store: Store, kit: Kit) -> None:
    kinds = [(project, is_paused) for project in ("a", "b") for is_paused in (True, False)]
    all_of_them = [await made(kit, project=project, is_paused=is_paused) for project, is_paused in kinds]
    newest = list(reversed(all_of_them))
    assert await kit.second.list_schedules(ScheduleFilter(), 10) == newest
    assert await kit.second.list_schedules(ScheduleFilter(), 2) == newest[:2]
    assert await kit.second.list_schedules(ScheduleFilter(), 10, newest[1].id) == newest[2:]
    assert await kit.second.list_schedules(ScheduleFilter(project="a"), 10) == newest[2:]
    assert await kit.second.list_schedules(ScheduleFilter("a", "echo", True), 10) == newest[3:]
    assert await kit.second.list_schedules(ScheduleFilter(task_type="other"), 10) == []


async def a_schedule_made_again_under_its_key_is_the_first_one(store: Store, kit: Kit) -> None:
    claim = Claim("schedules", "k", b"body", kit.now + DAY_MS)
    first = a_schedule(kit)
    assert not (await store.add_schedule(lambda: first, claim, kit.now)).is_replay
    again = await kit.second.add_schedule(lambda: a_schedule(kit), claim, kit.now)
    assert again == (first, True)
    with pytest.raises(IdempotencyMismatch):
        await store.add_schedule(lambda: a_schedule(kit), claim._replace(body_hash=b"other"), kit.now)
    assert len(await store.list_schedules(ScheduleFilter(), 10)) == 1


async def a_change_is_told_with_its_fields(store: Store, kit: Kit) -> None:
    schedule = await made(kit)
    async with kit.unchanged():
        await store.change_schedule(schedule.id, lambda have: have, kit.now)
    after = await store.change_schedule(
        schedule.id, lambda have: replace(have, name="other", is_paused=True, due_at=None), kit.now
    )
    assert after == await as_it_stands(kit, schedule)
    assert after.revision == schedule.revision + 1
    event = (await told_of(kit, schedule))[-1]
    assert event.kind == "schedule.changed"
    assert (sorted(event.data["fields"]), event.data["is_paused"]) == (["is_paused", "name"], True)


async def a_change_that_raises_changes_nothing(store: Store, kit: Kit) -> None:
    schedule = await made(kit)

    def change(have: Schedule) -> Schedule:
        raise NotFound("no such thing")

    async with kit.unchanged():
        with pytest.raises(NotFound):
            await store.change_schedule(schedule.id, change, kit.now)


async def what_is_not_there_is_not_found(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        with pytest.raises(NotFound):
            await store.change_schedule(7, lambda have: have, kit.now)
        with pytest.raises(NotFound):
            await store.remove_schedule(7, kit.now)
        with pytest.raises(NotFound):
            await store.run_schedule(HandRun(7, kit.new_task(), False), kit.now)


async def a_removed_schedule_fires_no_more_and_its_tasks_stay(store: Store, kit: Kit) -> None:
    schedule = await made(kit)
    kit.later(MINUTE_MS)
    await fire(kit)
    (task,) = await tasks_of(kit, schedule)
    planned = await made(kit)
    kit.later(MINUTE_MS)
    firings = await firings_due(kit)
    for one in (schedule, planned):
        await store.remove_schedule(one.id, kit.now)
    assert (await store.fire_schedules(firings, await kit.term(), kit.now)).stale == 2
    assert await kit.second.due_schedules(kit.now + DAY_MS, 10) == []
    assert await kit.status(task) is TaskStatus.PENDING
    assert (await told_of(kit, schedule))[-1].kind == "schedule.removed"


# -- retention


async def old_ticks_and_ended_schedules_go_with_retention(store: Store, kit: Kit) -> None:
    once = await made(kit, timing=Timing(at=kit.now + MINUTE_MS))
    often = await made(kit, every_s=86_400, overlap=Overlap.ALLOW)
    paused = await made(kit, is_paused=True, next_at=None, due_at=None)
    kit.later(MINUTE_MS)
    await fire(kit)
    assert (await as_it_stands(kit, once)).is_ended
    kit.later(DAY_MS)
    await fire(kit)
    term = await kit.term()
    await store.prune_rows(term, kit.now, 2 * DAY_MS, 2 * DAY_MS, 100)
    assert len(await ticks_of(kit, once)) == len(await ticks_of(kit, often)) == 1
    kit.later(30 * DAY_MS)
    await fire(kit)
    assert [status for _, status in await ticks_of(kit, often)] == [
        TickStatus.FIRED,
        TickStatus.SKIPPED,
        TickStatus.FIRED,
    ]
    kit.later(30 * DAY_MS)
    last = (await ticks_of(kit, often))[-1]
    for _ in range(2):
        await store.prune_rows(term, kit.now, 2 * DAY_MS, 20 * DAY_MS, 100)
    # The last one is how people see that a schedule works; with the schedule it goes as well.
    assert await ticks_of(kit, often) == [last]
    assert await ticks_of(kit, once) == []
    assert await kit.second.find_schedule(once.id) is None
    assert (await told_of(kit, once))[-1].kind == "schedule.removed"
    assert {one.id for one in await store.list_schedules(ScheduleFilter(), 10)} == {often.id, paused.id}
    assert (await fire(kit)).fired == 1
