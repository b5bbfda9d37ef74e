"""Daily quotas: what is granted and not given back never passes the quota, and nothing of a day is lost for ever."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from crawlfleet.errors import OverLimit
from crawlfleet.model.daily_quota import DAY_MS, Amounts, Slice, SliceRequest, day_end, utc_day
from crawlfleet.model.execution import End, ParkCause
from crawlfleet.model.project import OnFull, Project, Quotas
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Submission
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import PROJECT, START, Kit, Run
from testkit.flow_kit import FlowKit

PAGE = Amounts(1)
MANY = Amounts(1_000)
DAY = utc_day(START)


def daily(
    pages: int | None = None, size: int | None = None, on_full: OnFull = OnFull.WAIT
) -> Callable[[Project], Project]:
    quotas = Quotas(pages_per_day=pages, bytes_per_day=size)
    return lambda have: replace(have, quotas=quotas, on_full=on_full)


async def _ask(store: Store, kit: Kit, run: Run, number: int, asked: Amounts = MANY) -> Slice:
    (given,) = await store.grant_slices([_want(run, number, asked)], kit.now)
    assert given is not None
    return given


def _want(run: Run, number: int, asked: Amounts = MANY) -> SliceRequest:
    return SliceRequest(run.node.id, run.task, run.execution, number, asked)


async def _used(kit: Kit, day: int = DAY) -> Amounts:
    return (await kit.second.day_uses([PROJECT], day))[PROJECT]


async def _complete(store: Store, kit: Kit, run: Run, used: Amounts | None) -> None:
    applied = await store.complete_executions([kit.outcome(run)._replace(used=used)], kit.now)
    assert applied.after == {run.task: TaskStatus.COMPLETED}


# -- granting


async def a_slice_is_a_share_of_what_is_left(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(80, 8 << 20), 1, kit.now)
    run = await kit.run_one(await kit.node())
    first = await _ask(store, kit, run, 1, Amounts(100, 100 << 20))
    assert first == Slice(1, Amounts(10, 1 << 20))
    assert (await _ask(store, kit, run, 2, Amounts(4, 100))).total == Amounts(14, (1 << 20) + 100)
    assert await _used(kit) == Amounts(14, (1 << 20) + 100)


async def the_last_page_is_granted_and_then_none(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(3), 1, kit.now)
    one, other = await kit.run(await kit.node(), 2)
    assert [(await _ask(store, kit, one, number)).total.pages for number in (1, 2)] == [1, 2]
    assert (await _ask(store, kit, other, 1)).total.pages == 1
    kit.later(3_600_000)
    async with kit.unchanged():
        refused = await _ask(store, kit, one, 3)
    (over,) = refused.denials
    assert (refused.total.pages, over.quota, over.project, over.is_held) == (2, "pages_per_day", PROJECT, True)
    assert over.message == f"quota 'pages per day' of project {PROJECT}: 0 of 3 left until 00:00 UTC"
    assert kit.now + over.again_ms == day_end(DAY)


async def without_a_quota_of_it_an_amount_is_only_counted(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(5), 1, kit.now)
    run = await kit.run_one(await kit.node())
    assert (await _ask(store, kit, run, 1, Amounts(0, 50_000))).total == Amounts(0, 50_000)
    await store.drop_project(PROJECT, kit.now)
    assert (await _ask(store, kit, run, 2, MANY)).total == Amounts(1_000, 50_000)
    assert await _used(kit) == Amounts(1_000, 50_000)


async def a_want_that_comes_again_is_told_the_same(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(800), 1, kit.now)
    run = await kit.run_one(await kit.node())
    first = await _ask(store, kit, run, 1)
    second = await _ask(store, kit, run, 2)
    async with kit.unchanged():
        assert await _ask(kit.second, kit, run, 2) == second
        assert (await _ask(store, kit, run, 1)).total == second.total, "an old one that comes late"
    assert first.total.pages == 100 < second.total.pages
    twice = await store.grant_slices([_want(run, 3), _want(run, 3)], kit.now)
    assert twice[0] == twice[1]


async def only_the_live_execution_on_its_node_is_granted_anything(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(100), 1, kit.now)
    node, other = await kit.node(), await kit.node()
    run, ended = await kit.run(node, 2)
    await kit.complete(ended)
    strangers = [
        _want(run._replace(node=other), 1),
        _want(run._replace(execution=5), 1),
        _want(ended, 1),
        _want(Run(77, 78, node), 1),
    ]
    assert await store.grant_slices(strangers, kit.now) == [None] * 4
    assert await _used(kit) == Amounts()
    answers = await store.grant_slices([*strangers, _want(run, 1)], kit.now)
    assert [answer is not None for answer in answers] == [False, False, False, False, True]


async def a_quota_of_nothing_grants_nothing(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(0, on_full=OnFull.REFUSE), 1, kit.now)
    run = await kit.run_one(await kit.node())
    (over,) = (await _ask(store, kit, run, 1)).denials
    assert (over.again_ms, over.is_held) == (0, False)
    assert "0 of 0 left" in over.message


async def who_had_the_whole_day_alone_is_told_that_it_will_never_do(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(2), 1, kit.now)
    run = await kit.run_one(await kit.node())
    for number in (1, 2):
        await _ask(store, kit, run, number)
    (over,) = (await _ask(store, kit, run, 3)).denials
    assert over.message == f"needs more than the whole quota 'pages per day' of project {PROJECT}: 2"
    assert (over.again_ms, over.is_held) == (0, False)


async def a_changed_quota_applies_to_the_next_want(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(8), 1, kit.now)
    run = await kit.run_one(await kit.node())
    for number in range(1, 9):
        await _ask(store, kit, run, number, PAGE)
    await store.change_project(PROJECT, daily(4), 2, kit.now)
    assert (await _ask(store, kit, run, 9, PAGE)).denials, "nothing more, and nothing is taken away"
    assert await _used(kit) == Amounts(8)
    await store.change_project(PROJECT, daily(9), 3, kit.now)
    assert (await _ask(store, kit, run, 9, PAGE)) == Slice(9, Amounts(9))


# -- coming back


async def what_was_not_used_comes_back_with_the_outcome(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(800, 80 << 20), 1, kit.now)
    done, parked, failed = await kit.run(await kit.node(), 3)
    for run in (done, parked, failed):
        await _ask(store, kit, run, 1, Amounts(10, 1_000))
    await _complete(store, kit, done, Amounts(7, 1_000))
    assert await _used(kit) == Amounts(27, 3_000)
    await kit.finish_with(kit.outcome(parked, End.RETURNED)._replace(used=Amounts(10, 0)))
    await kit.finish_with(kit.outcome(failed, End.STOPPED)._replace(used=Amounts(0, 999)))
    assert await _used(kit) == Amounts(17, 1_999)
    assert (await kit.dump())["day_slice"] == []


async def one_that_dies_keeps_what_it_had(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(800), 1, kit.now)
    node = await kit.node()
    lost, died = await kit.run(node, 2)
    for run in (lost, died):
        await _ask(store, kit, run, 1, Amounts(10))
    await kit.finish(died, End.PROCESS_LOST)
    await kit.end(node)
    assert await _used(kit) == Amounts(20)
    late = kit.outcome(lost)._replace(used=Amounts(1))
    assert (await store.complete_executions([late], kit.now)).refused
    assert await _used(kit) == Amounts(20), "a stale word changes nothing"


async def more_than_was_granted_never_comes_back(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(800), 1, kit.now)
    liar, boaster = await kit.run(await kit.node(), 2)
    for run in (liar, boaster):
        await _ask(store, kit, run, 1, Amounts(10))
    await _complete(store, kit, liar, Amounts(-1_000, -5))
    await _complete(store, kit, boaster, Amounts(1 << 70, 1 << 70))
    assert await _used(kit) == Amounts(10)


async def an_execution_that_was_granted_nothing_ends_as_any_other(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(800), 1, kit.now)
    run = await kit.run_one(await kit.node())
    await _complete(store, kit, run, Amounts())
    assert await _used(kit) == Amounts()


# -- days


async def a_new_day_begins_with_nothing_used(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(2), 1, kit.now)
    one, other = await kit.run(await kit.node(), 2)
    for run in (one, other):
        await _ask(store, kit, run, 1)
    assert (await _ask(store, kit, one, 2)).denials
    kit.later(day_end(DAY) - kit.now)
    assert (await _ask(store, kit, one, 2)) == Slice(2, Amounts(2))
    assert (await _used(kit), await _used(kit, DAY + 1)) == (Amounts(2), Amounts(1))


async def what_was_granted_on_one_day_counts_for_that_day(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(800), 1, kit.now)
    run = await kit.run_one(await kit.node())
    await _ask(store, kit, run, 1, Amounts(10))
    kit.later(DAY_MS)
    await _ask(store, kit, run, 2, Amounts(10))
    await _complete(store, kit, run, Amounts(12))
    assert (await _used(kit), await _used(kit, DAY + 1)) == (Amounts(10), Amounts(2)), "the oldest is used first"


async def old_days_are_forgotten_but_not_what_runs(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(800), 1, kit.now)
    node = await kit.node()
    gone, long = await kit.run(node, 2)
    for run in (gone, long):
        await _ask(store, kit, run, 1, Amounts(10))
    await kit.finish(gone, End.PROCESS_LOST)
    kit.later(8 * DAY_MS)
    await store.prune_rows(await kit.term(), kit.now, 100 * DAY_MS, 100 * DAY_MS, 100)
    dump = await kit.dump()
    assert dump["day_use"] == []
    assert [row[0] for row in dump["day_slice"]] == [long.execution]
    assert (await _ask(store, kit, long, 2, Amounts(10))).total == Amounts(20)


# -- many at once


async def many_who_ask_at_once_never_pass_the_quota(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(50), 1, kit.now)
    runs = await kit.run(await kit.node(slots=100), 12)
    given = dict.fromkeys(runs, 0)

    async def crawl(at: int, run: Run) -> None:
        for number in range(1, 12):
            mine = (store, kit.second)[(at + number) % 2]
            answers = await asyncio.gather(*(_ask(mine, kit, run, number, Amounts(6)) for _ in range(2)))
            given[run] = max(given[run], *(answer.total.pages for answer in answers))

    await asyncio.gather(*(crawl(at, run) for at, run in enumerate(runs)))
    assert sum(given.values()) == (await _used(kit)).pages == 50


async def an_end_and_a_want_at_one_moment_lose_nothing(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(10_000), 1, kit.now)
    runs = await kit.run(await kit.node(slots=100), 20)
    await store.grant_slices([_want(run, 1, Amounts(10)) for run in runs], kit.now)
    ends = [
        (store, kit.second)[n % 2].complete_executions([kit.outcome(run)._replace(used=Amounts(4))], kit.now)
        for n, run in enumerate(runs)
    ]
    wants = [
        (store, kit.second)[n % 2].grant_slices([_want(run, 2, Amounts(10))], kit.now) for n, run in enumerate(runs, 1)
    ]
    await asyncio.gather(*(call for pair in zip(ends, wants, strict=True) for call in pair))
    assert await _used(kit) == Amounts(20 * 4), "whoever came first, only what was used stays"
    assert (await kit.dump())["day_slice"] == []


async def batches_over_projects_do_not_wait_in_a_circle(store: Store, kit: Kit) -> None:
    lanes = [await kit.known_lane(name) for name in ("a", "b", "c")]
    for lane in lanes:
        await store.change_project(lane.project, daily(10_000), 1, kit.now)
    node = await kit.node(slots=100)
    runs = [run for lane in lanes for run in await kit.run(node, 6, lane=lane)]
    wants = [_want(run, 1, Amounts(10)) for run in runs]
    await asyncio.gather(
        *(
            (store, kit.second)[n % 2].grant_slices(wants[n:] + wants[:n] if n % 3 else wants[::-1], kit.now)
            for n in range(8)
        )
    )
    uses = await kit.second.day_uses(["a", "b", "c"], DAY)
    assert uses == dict.fromkeys(("a", "b", "c"), Amounts(60))


# -- the door, and those that are parked


async def a_project_that_refuses_is_shut_while_its_day_is_spent(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(1), 1, kit.now)
    await _ask(store, kit, await kit.run_one(await kit.node()), 1)
    submission = Submission([kit.new_task()], limited=(PROJECT,))
    (waits,) = (await store.add_tasks([submission], kit.now)).answers
    assert waits.over_quota is None, "it may wait"
    await store.change_project(PROJECT, lambda have: replace(have, on_full=OnFull.REFUSE), 2, kit.now)
    flow = await FlowKit.drafted(kit, {"first": {}})
    async with kit.unchanged():
        (answer,) = (await store.add_tasks([Submission([kit.new_task()], limited=(PROJECT,))], kit.now)).answers
        with pytest.raises(OverLimit, match="pages per day") as refused:
            await store.add_flow(flow.new._replace(limited=(PROJECT,)), None, kit.now)
    assert answer.over_quota == f"quota 'pages per day' of project {PROJECT}: 0 of 1 left until 00:00 UTC"
    assert (answer.renews_at, refused.value.retry_after_s) == (day_end(DAY), (day_end(DAY) - kit.now) / 1000)
    kit.later(DAY_MS)
    (answer,) = (await store.add_tasks([Submission([kit.new_task()], limited=(PROJECT,))], kit.now)).answers
    assert answer.over_quota is None


async def what_is_delivered_says_whether_it_is_metered(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    assert not (await store.load_deliveries([task]))[task].is_metered
    await store.change_project(PROJECT, daily(None, 0), 1, kit.now)
    assert (await store.load_deliveries([task]))[task].is_metered
    await store.change_project(PROJECT, daily(), 2, kit.now)
    assert not (await store.load_deliveries([task]))[task].is_metered


async def parked_tasks_come_back_when_there_is_room_again(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(8), 1, kit.now)
    node = await kit.node(slots=100)
    holder, *others = await kit.run(node, 4)
    for number in range(1, 9):
        await _ask(store, kit, holder, number, PAGE)
    for run in others:
        await kit.park(run, day_end(DAY) - kit.now, ParkCause.DAILY_QUOTA, PROJECT)
    stranger = await kit.run_one(node, lane=await kit.known_lane("other"))
    await kit.park(stranger, 60_000, ParkCause.DAILY_QUOTA, PROJECT)
    kit.later(10_000)
    assert await store.parked_with_room(kit.now, 10) == []
    await _complete(store, kit, holder, Amounts(7))
    assert await store.parked_with_room(kit.now, 10) == [], "one page is not worth another try"
    await store.change_project(PROJECT, daily(9), 2, kit.now)
    assert len(await store.parked_with_room(kit.now, 10)) == 1, "no more than two pages are left"
    await store.change_project(PROJECT, daily(100), 3, kit.now)
    found = await store.parked_with_room(kit.now, 2)
    assert (len(found), set(found) < {run.task for run in others}) == (2, True)
    applied = await store.change_tasks(found, task_state_machine.unpark_task, kit.now, await kit.term())
    assert set(applied.after.values()) == {TaskStatus.PENDING}
    assert len(await store.parked_with_room(kit.now, 10)) == 1


async def parked_tasks_whose_time_is_near_are_left_alone(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, daily(8), 1, kit.now)
    run = await kit.run_one(await kit.node())
    await kit.park(run, 8_000, ParkCause.DAILY_QUOTA, PROJECT)
    assert await store.parked_with_room(kit.later(1_000), 10) == [], "what it found may not be known here yet"
    assert await store.parked_with_room(kit.later(5_000), 10) == [run.task]
    assert await store.parked_with_room(kit.later(2_000), 10) == []
