"""Firing: a tick fires once, with its task, under the term; what people change is never overwritten by it."""

import asyncio
from dataclasses import replace

import pytest

from crawlfleet.errors import NotLeader
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.schedule import CatchUp, Overlap, TickStatus
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted, Claim
from crawlfleet.scheduling.schedules import ticks as times
from testkit.factories import Kit
from tests.contract.store.composites.schedules_kit import (
    DAY_MS,
    MINUTE_MS,
    as_it_stands,
    by_hand,
    fire,
    firings_due,
    made,
    tasks_of,
    ticks_of,
    told_of,
)

BAD = Refusal(Code.INVALID_INPUT, "not a number", "parameters.depth")


# -- firing


async def a_due_tick_makes_a_task_in_the_same_transaction(store: Store, kit: Kit) -> None:
    schedule = await made(kit)
    assert await store.next_due() == kit.now + MINUTE_MS
    assert await store.due_schedules(kit.now + MINUTE_MS - 1, 10) == []
    at = kit.later(MINUTE_MS)
    report = await fire(kit)
    assert (report.fired, report.skipped, report.stale) == (1, 0, 0)
    (task,) = await tasks_of(kit, schedule)
    assert report.ready == {kit.lane.id: [task]}
    assert await kit.status(task) is TaskStatus.PENDING
    assert await ticks_of(kit, schedule) == [(at, TickStatus.FIRED)]
    after = await as_it_stands(kit, schedule)
    assert (after.fired_until, after.next_at, after.due_at, after.recent) == (
        at,
        at + MINUTE_MS,
        at + MINUTE_MS,
        (task,),
    )
    fired = (await told_of(kit, schedule))[-1]
    assert (fired.kind, fired.data["task"], fired.data["run_at"]) == ("schedule.fired", task, at)
    assert await kit.second.task_totals() == {TaskStatus.PENDING: 1}
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def a_batch_that_comes_again_fires_nothing_twice(store: Store, kit: Kit) -> None:
    schedules = [await made(kit) for _ in range(3)]
    kit.later(MINUTE_MS)
    firings = await firings_due(kit)
    await store.fire_schedules(firings, await kit.term(), kit.now)
    async with kit.unchanged():
        again = await kit.second.fire_schedules(firings, await kit.term(), kit.now)
    assert (again.fired, again.stale) == (0, 3)
    for schedule in schedules:
        assert len(await tasks_of(kit, schedule)) == 1


async def two_who_fire_at_once_fire_each_tick_once(store: Store, kit: Kit) -> None:
    schedules = [await made(kit) for _ in range(20)]
    kit.later(MINUTE_MS)
    term = await kit.term()
    one, two = await firings_due(kit), await firings_due(kit, kit.second)
    reports = await asyncio.gather(
        store.fire_schedules(one, term, kit.now), kit.second.fire_schedules(two, term, kit.now)
    )
    assert sum(report.fired for report in reports) == 20
    assert sum(report.stale for report in reports) == 20
    for schedule in schedules:
        assert len(await tasks_of(kit, schedule)) == 1
    assert sum((await store.count_rows()).values()) == 20


async def a_tick_that_has_its_row_is_not_fired_again_whatever_its_schedule_says(store: Store, kit: Kit) -> None:
    schedule = await made(kit)
    at = kit.later(MINUTE_MS)
    await fire(kit)
    # As somebody with a clock that was set back, and without care, might.
    await store.change_schedule(
        schedule.id,
        lambda have: replace(have, fired_until=schedule.fired_until, next_at=at, due_at=at, recent=()),
        kit.now,
    )
    report = await fire(kit)
    assert (report.fired, report.stale) == (0, 0)
    assert len(await tasks_of(kit, schedule)) == 1
    assert (await as_it_stands(kit, schedule)).next_at == at + MINUTE_MS


async def an_older_term_fires_nothing(store: Store, kit: Kit) -> None:
    await made(kit)
    old = await kit.term()
    kit.later(MINUTE_MS)
    assert await store.campaign("another", await store.read_leader(), kit.now) == old + 1
    firings = await firings_due(kit)
    async with kit.unchanged():
        with pytest.raises(NotLeader):
            await store.fire_schedules(firings, old, kit.now)


async def a_schedule_changed_meanwhile_waits_for_the_next_pass(store: Store, kit: Kit) -> None:
    paused, other = await made(kit), await made(kit)
    kit.later(MINUTE_MS)
    firings = await firings_due(kit)
    await kit.second.change_schedule(
        paused.id, lambda have: replace(have, is_paused=True, next_at=None, due_at=None), kit.now
    )
    report = await store.fire_schedules(firings, await kit.term(), kit.now)
    assert (report.fired, report.stale) == (1, 1)
    assert await ticks_of(kit, paused) == []
    assert len(await ticks_of(kit, other)) == 1
    assert await firings_due(kit) == []


async def a_refused_template_is_told_and_its_neighbours_fire(store: Store, kit: Kit) -> None:
    bad, good = await made(kit), await made(kit)
    at = kit.later(MINUTE_MS)
    firings = [
        firing._replace(tasks={at: BAD}) if firing.schedule.id == bad.id else firing
        for firing in await firings_due(kit)
    ]
    report = await store.fire_schedules(firings, await kit.term(), kit.now)
    assert (report.fired, report.skipped) == (1, 1)
    assert await ticks_of(kit, bad) == [(at, TickStatus.REFUSED)]
    after = await as_it_stands(kit, bad)
    assert after.last_error == "task.parameters.depth: not a number"
    assert after.next_at == at + MINUTE_MS
    event = (await told_of(kit, bad))[-1]
    assert (event.kind, event.data["reason"]) == ("schedule.skipped", after.last_error)
    assert (await as_it_stands(kit, good)).last_error is None
    kit.later(MINUTE_MS)
    await fire(kit)
    assert (await as_it_stands(kit, bad)).last_error is None


async def missed_ticks_are_told_once_with_their_span(store: Store, kit: Kit) -> None:
    schedule = await made(kit)
    first = kit.now + MINUTE_MS
    kit.later(10 * MINUTE_MS)
    await fire(kit)
    # The last of them has a row, for people and for alerts.
    assert await ticks_of(kit, schedule) == [(kit.now - MINUTE_MS, TickStatus.SKIPPED), (kit.now, TickStatus.FIRED)]
    missed = [event.data for event in await told_of(kit, schedule) if event.kind == "schedule.skipped"]
    assert [(data["since"], data["run_at"]) for data in missed] == [(first, kit.now - MINUTE_MS)]


async def all_missed_ticks_fire_where_that_is_wanted(store: Store, kit: Kit) -> None:
    schedule = await made(kit, catch_up=CatchUp.ALL, overlap=Overlap.ALLOW)
    first = kit.now + MINUTE_MS
    kit.later(300 * MINUTE_MS)
    assert (await fire(kit)).fired == 300
    assert [at for at, _ in await ticks_of(kit, schedule)] == [first + n * MINUTE_MS for n in range(300)]
    assert len((await as_it_stands(kit, schedule)).recent) == 100
    assert await store.task_totals() == {TaskStatus.PENDING: 300}


# -- overlap


async def a_tick_is_skipped_while_an_earlier_task_goes_on(store: Store, kit: Kit) -> None:
    schedule = await made(kit)
    first = kit.later(MINUTE_MS)
    await fire(kit)
    second = kit.later(MINUTE_MS)
    assert (await fire(kit)).skipped == 1
    (task,) = await tasks_of(kit, schedule)
    await kit.cancel(task)
    third = kit.later(MINUTE_MS)
    await fire(kit)
    statuses = [TickStatus.FIRED, TickStatus.SKIPPED, TickStatus.FIRED]
    assert await ticks_of(kit, schedule) == list(zip((first, second, third), statuses, strict=True))
    reasons = [event.data["reason"] for event in await told_of(kit, schedule) if event.kind == "schedule.skipped"]
    assert reasons == [times.BUSY]


async def ticks_overlap_where_that_is_allowed(store: Store, kit: Kit) -> None:
    schedule = await made(kit, overlap=Overlap.ALLOW)
    for _ in range(3):
        kit.later(MINUTE_MS)
        await fire(kit)
    assert await store.task_totals() == {TaskStatus.PENDING: 3}
    tasks = await tasks_of(kit, schedule)
    assert (await as_it_stands(kit, schedule)).recent == tuple(tasks)
    await kit.cancel(*tasks[1:])
    kit.later(MINUTE_MS)
    await fire(kit)
    assert (await as_it_stands(kit, schedule)).recent == (tasks[0], (await tasks_of(kit, schedule))[-1])


async def one_tick_is_held_until_the_earlier_task_ended_however_it_did(store: Store, kit: Kit) -> None:
    schedule = await made(kit, overlap=Overlap.QUEUE)
    first, second, third = (kit.later(MINUTE_MS), kit.now + MINUTE_MS, kit.now + 2 * MINUTE_MS)
    await fire(kit)
    for _ in range(2):
        kit.later(MINUTE_MS)
        await fire(kit)
    (task,) = await tasks_of(kit, schedule)
    after = await as_it_stands(kit, schedule)
    assert (after.held_at, after.held_for, after.fired_until) == (second, task, third)
    assert await ticks_of(kit, schedule) == [(first, TickStatus.FIRED), (third, TickStatus.SKIPPED)]
    assert await store.due_schedules(kit.now, 10) == []
    await kit.cancel(task)
    assert (await fire(kit)).fired == 1
    after = await as_it_stands(kit, schedule)
    assert (after.held_at, after.held_for) == (None, None)
    assert dict(await ticks_of(kit, schedule))[second] is TickStatus.FIRED
    assert await store.due_schedules(kit.now, 10) == []


async def a_paused_schedule_lets_go_of_nothing_it_holds(store: Store, kit: Kit) -> None:
    schedule = await made(kit, overlap=Overlap.QUEUE, is_paused=True, next_at=None, due_at=None, held_at=kit.now)
    assert await store.due_schedules(kit.now + DAY_MS, 10) == []
    await store.change_schedule(schedule.id, lambda have: replace(have, is_paused=False), kit.now)
    assert [one.id for one in await store.due_schedules(kit.now, 10)] == [schedule.id]


async def the_earlier_task_is_cancelled_where_that_is_wanted(store: Store, kit: Kit) -> None:
    schedule = await made(kit, overlap=Overlap.CANCEL_PREVIOUS)
    node = await kit.node()
    kit.later(MINUTE_MS)
    await fire(kit)
    (waiting,) = await tasks_of(kit, schedule)
    kit.later(MINUTE_MS)
    report = await fire(kit)
    assert report.cancelled.after == {waiting: TaskStatus.CANCELLED}
    assert (await kit.record(waiting)).reason == "cancelled for the next run of its schedule"
    running = (await tasks_of(kit, schedule))[-1]
    await kit.assign([running], node)
    kit.later(MINUTE_MS)
    report = await fire(kit)
    assert report.cancelled.nodes_to_wake == {node.id}
    assert await kit.status(running) is TaskStatus.ASSIGNED
    assert report.fired == 1
    assert await store.task_totals() == await store.count_rows()


# -- by hand


async def a_run_by_hand_is_a_task_outside_of_the_ticks(store: Store, kit: Kit) -> None:
    schedule = await made(kit)
    answer = await store.run_schedule(by_hand(kit, schedule), kit.now)
    assert isinstance(answer.item, Accepted)
    assert answer.ready == {kit.lane.id: [answer.item.id]}
    after = await as_it_stands(kit, schedule)
    assert (after.next_at, after.fired_until, after.recent) == (
        schedule.next_at,
        schedule.fired_until,
        (answer.item.id,),
    )
    ((at, status),) = await ticks_of(kit, schedule)
    assert status is TickStatus.BY_HAND
    assert at % 1000, "where a tick may come to stand"
    assert (await told_of(kit, schedule))[-1].data["is_by_hand"] is True
    kit.later(MINUTE_MS)
    assert (await fire(kit)).skipped == 1


async def a_run_by_hand_is_refused_while_another_goes_on_unless_forced(store: Store, kit: Kit) -> None:
    for overlap in (Overlap.SKIP, Overlap.QUEUE):
        schedule = await made(kit, overlap=overlap)
        await store.run_schedule(by_hand(kit, schedule), kit.now)
        async with kit.unchanged():
            answer = await store.run_schedule(by_hand(kit, schedule), kit.now)
        assert isinstance(answer.item, Refusal)
        assert answer.item.code is Code.NOT_READY
        forced = await store.run_schedule(by_hand(kit, schedule, is_forced=True), kit.now)
        assert isinstance(forced.item, Accepted)
        assert len((await as_it_stands(kit, schedule)).recent) == 2


async def a_run_by_hand_cancels_the_other_where_that_is_wanted(store: Store, kit: Kit) -> None:
    schedule = await made(kit, overlap=Overlap.CANCEL_PREVIOUS)
    first = await store.run_schedule(by_hand(kit, schedule), kit.now)
    assert isinstance(first.item, Accepted)
    second = await store.run_schedule(by_hand(kit, schedule), kit.now)
    assert second.cancelled.after == {first.item.id: TaskStatus.CANCELLED}
    third = await store.run_schedule(by_hand(kit, schedule, is_forced=True), kit.now)
    assert third.cancelled.after == {}
    assert await store.task_totals() == {TaskStatus.PENDING: 2, TaskStatus.CANCELLED: 1}


async def a_run_by_hand_under_a_key_is_one_run(store: Store, kit: Kit) -> None:
    schedule = await made(kit)
    claim = Claim("runs", "k", b"body", kit.now + DAY_MS)
    first = await store.run_schedule(by_hand(kit, schedule, claim=claim), kit.now)
    async with kit.unchanged():
        again = await kit.second.run_schedule(by_hand(kit, schedule, claim=claim), kit.now)
        assert (again.item, again.is_replay) == (first.item, True)
        other = await store.run_schedule(by_hand(kit, schedule, claim=claim._replace(body_hash=b"other")), kit.now)
        assert isinstance(other.item, Refusal)
        assert other.item.code is Code.IDEMPOTENCY_MISMATCH


async def many_runs_by_hand_at_once_are_each_there(store: Store, kit: Kit) -> None:
    schedule = await made(kit, overlap=Overlap.ALLOW)
    runs = [by_hand(kit, schedule) for _ in range(10)]
    await asyncio.gather(
        *(one.run_schedule(run, kit.now) for run, one in zip(runs, [store, kit.second] * 5, strict=True))
    )
    assert len(await tasks_of(kit, schedule)) == 10
