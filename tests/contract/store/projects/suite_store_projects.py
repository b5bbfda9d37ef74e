"""Projects: what was said of them, what they use, and the writes that have to be sure of both."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from crawlfleet.errors import Conflict, OverLimit
from crawlfleet.model.execution import End
from crawlfleet.model.project import OnFull, Project, Quotas, Use
from crawlfleet.model.queue import Lane
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.schedule import Overlap, TickStatus
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted, Assignment, Claim, Submission
from testkit.factories import PROJECT, Kit
from testkit.flow_kit import FlowKit
from tests.contract.store.composites.schedules_kit import MINUTE_MS, as_it_stands, by_hand, firings_due, made, ticks_of

ROUNDS = 12
PENDING = TaskStatus.PENDING


def quotas(**limits: float | None) -> Callable[[Project], Project]:
    return lambda have: replace(have, quotas=replace(have.quotas, **limits))  # type: ignore[arg-type]


def never(_: Project, __: Use) -> Refusal | None:
    return Refusal(Code.OVER_QUOTA, "no")


def always(_: Project, __: Use) -> Refusal | None:
    return None


# -- what was said


async def a_project_nobody_described_has_the_defaults(store: Store, kit: Kit) -> None:
    assert await kit.second.load_project("shop") == Project("shop")
    assert await kit.second.list_projects() == []


async def a_project_is_changed_version_by_version(store: Store, kit: Kit) -> None:
    first = await store.change_project("shop", lambda have: replace(have, weight=2.5), 11, kit.now)
    assert first == Project("shop", 2.5, version=1, fence=11, changed_at=kit.now)
    want = replace(first, quotas=Quotas(10, 3, 1.5, 512.0), on_full=OnFull.REFUSE)
    second = await store.change_project("shop", lambda _: want, 12, kit.later())
    assert second == replace(want, version=2, fence=12, changed_at=kit.now)
    assert await kit.second.load_project("shop") == second
    await store.change_project("news", lambda have: have, 13, kit.now)
    assert [project.name for project in await kit.second.list_projects()] == ["news", "shop"]


async def every_change_of_a_project_has_its_event(store: Store, kit: Kit) -> None:
    await store.change_project("shop", quotas(running=5), 1, kit.now)
    assert await store.drop_project("shop", kit.now)
    changed, dropped = [event.data for event in await kit.events() if event.kind == "project.changed"]
    assert (changed["project"], changed["version"], changed["quotas"]["running"]) == ("shop", 1, 5)
    assert (dropped["project"], dropped["version"], dropped["quotas"]["running"]) == ("shop", 0, None)


async def a_project_that_was_changed_meanwhile_is_not_overwritten(store: Store, kit: Kit) -> None:
    await store.change_project("shop", lambda have: have, 1, kit.now, expected_version=0)
    async with kit.unchanged():
        for version in (0, 2):
            with pytest.raises(Conflict):
                await store.change_project("shop", lambda have: have, 2, kit.now, expected_version=version)


async def changes_at_once_follow_each_other(store: Store, kit: Kit) -> None:
    calls = [
        (store, kit.second)[n % 2].change_project(
            "shop", lambda have: replace(have, weight=have.weight + 1), n, kit.now
        )
        for n in range(8)
    ]
    assert sorted(project.version for project in await asyncio.gather(*calls)) == list(range(1, 9))
    assert (await kit.second.load_project("shop")).weight == 9


async def a_dropped_project_has_the_defaults_again(store: Store, kit: Kit) -> None:
    await store.change_project("shop", quotas(running=1), 1, kit.now)
    assert await store.drop_project("shop", kit.now)
    assert await kit.second.load_project("shop") == Project("shop")
    async with kit.unchanged():
        assert not await store.drop_project("shop", kit.now)


# -- what is used


async def what_a_project_uses_is_counted(store: Store, kit: Kit) -> None:
    lane = Lane.with_id("default", PROJECT, 5, Requirement("echo", resources=(("cpu", 0.5), ("memory_mb", 64.0))))
    await store.ensure_lanes([lane])
    node = await kit.node()
    await kit.submit(2)
    await kit.submit(1, due_at=kit.now + 5_000)
    first, second = await kit.assign(await kit.submit(2, lane=lane), node)
    await kit.run_one(node)
    await kit.submit(1, lane=await kit.known_lane("other"))
    waiting, held = (await kit.second.project_uses([PROJECT]))[PROJECT]
    assert (waiting, held) == (3, Use(3, {"cpu": 1.0, "memory_mb": 128.0}))
    await kit.complete(first)
    await kit.finish(second, End.RETURNED)
    waiting, held = (await kit.second.project_uses([PROJECT]))[PROJECT]
    assert (waiting, held) == (4, Use(1, {}))
    assert (await kit.second.project_uses(["nobody"]))["nobody"] == (0, Use())
    assert sorted(await kit.second.project_uses()) == ["other", PROJECT]


async def projects_whose_tasks_have_ended_use_nothing(store: Store, kit: Kit) -> None:
    await kit.ended_completed()
    assert await kit.second.project_uses() == {}


async def what_nodes_hold_of_a_project_is_found(store: Store, kit: Kit) -> None:
    node = await kit.node()
    (run,) = await kit.run(node)
    await kit.run_one(node, lane=await kit.known_lane("other"))
    await kit.submit()
    assert [row.id for row in await kit.second.held_in([PROJECT])] == [run.task]
    assert await kit.second.held_in(["nobody"]) == []


# -- the leader's fences


async def a_batch_behind_a_fence_is_refused_and_its_neighbours_go_on(store: Store, kit: Kit) -> None:
    node = await kit.node()
    other = await kit.known_lane("other")
    await store.change_project(PROJECT, quotas(running=1), 5, kit.now)
    mine, theirs = await kit.submit(2), await kit.submit(2, lane=other)
    batch = [await kit.assignment(task, node) for task in (*mine, *theirs)]
    applied = await store.assign_tasks(batch, None, kit.now, {PROJECT: 0, "other": 0})
    assert set(applied.after) == set(theirs)
    assert {task: refusal.code for task, refusal in applied.refused.items()} == dict.fromkeys(mine, Code.OVER_QUOTA)
    assert {await kit.status(task) for task in mine} == {PENDING}
    again = await store.assign_tasks(batch[:2], None, kit.now, {PROJECT: 5})
    assert set(again.after) == set(mine)


async def a_fence_of_a_project_that_is_gone_is_behind(store: Store, kit: Kit) -> None:
    node, task = await kit.node(), await kit.submit_one()
    await store.change_project(PROJECT, quotas(running=1), 5, kit.now)
    await store.drop_project(PROJECT, kit.now)
    item = await kit.assignment(task, node)
    async with kit.unchanged():
        assert (await store.assign_tasks([item], None, kit.now, {PROJECT: 5})).refused[task].code is Code.OVER_QUOTA
    assert (await store.assign_tasks([item], None, kit.now, {PROJECT: 0})).after == {task: TaskStatus.ASSIGNED}


# -- by hand


async def what_is_assigned_by_hand_moves_the_fence(store: Store, kit: Kit) -> None:
    node, task = await kit.node(), await kit.submit_one()
    await store.change_project(PROJECT, quotas(running=1), 5, kit.now)
    item = await kit.assignment(task, node)
    assert (await store.assign_by_hand(item, PROJECT, always, kit.now)).after == {task: TaskStatus.ASSIGNED}
    assert (await kit.second.load_project(PROJECT)).fence == item.execution


async def what_the_quota_refuses_by_hand_changes_nothing(store: Store, kit: Kit) -> None:
    node, task = await kit.node(), await kit.submit_one()
    await store.change_project(PROJECT, quotas(running=1), 5, kit.now)
    item = await kit.assignment(task, node)
    async with kit.unchanged():
        applied = await store.assign_by_hand(item, PROJECT, never, kit.now)
    assert (applied.refused[task].code, applied.after) == (Code.OVER_QUOTA, {})


async def a_project_without_a_row_has_no_quota_by_hand(store: Store, kit: Kit) -> None:
    node, task = await kit.node(), await kit.submit_one()
    applied = await store.assign_by_hand(await kit.assignment(task, node), PROJECT, never, kit.now)
    assert applied.after == {task: TaskStatus.ASSIGNED}


async def hands_and_leader_at_once_never_pass_a_quota(store: Store, kit: Kit) -> None:
    """The leader counts on its fence; hands count in the store. Whoever is quicker, one is left in the end."""

    def one(project: Project, use: Use) -> Refusal | None:
        return never(project, use) if use.running >= 1 else None

    node = await kit.node()
    for round_ in range(ROUNDS):
        project = f"project {round_}"
        lane = await kit.known_lane(project)
        fence = (await store.change_project(project, quotas(running=1), kit.ids.new_id(), kit.now)).fence
        tasks = await kit.submit(3, lane=lane)
        items = [Assignment(task, lane.id, kit.ids.new_id(), node.id, node.session) for task in tasks]
        await asyncio.gather(
            store.assign_by_hand(items[0], project, one, kit.now),
            kit.second.assign_by_hand(items[1], project, one, kit.now),
            store.assign_tasks([items[2]], None, kit.now, {project: fence}),
        )
        assert (await kit.second.project_uses([project]))[project].held.running == 1


# -- at the door


async def a_submit_never_brings_a_project_above_its_quota(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, quotas(waiting=5), 1, kit.now)
    assert await _taken(kit, store, 3)
    async with kit.unchanged():
        assert not await _taken(kit, store, 3)
    assert await _taken(kit, store, 2)
    assert not await _taken(kit, store, 1)
    assert await _taken(kit, store, 1, project="other")


async def only_those_who_say_so_are_counted(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, quotas(waiting=0), 1, kit.now)
    await kit.submit(3)
    assert not await _taken(kit, store, 1)


async def of_submits_in_one_transaction_those_that_fit_are_taken(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, quotas(waiting=4), 1, kit.now)
    calls = [Submission([kit.new_task() for _ in range(count)], limited=(PROJECT,)) for count in (3, 2, 1, 1)]
    answers = (await store.add_tasks(calls, kit.now)).answers
    assert [answer.over_quota is None for answer in answers] == [True, False, True, False]
    assert "4 of 4" in str(answers[3].over_quota)
    assert await kit.second.task_totals() == await kit.second.count_rows() == {PENDING: 4}


async def submits_of_many_at_once_stay_below_the_quota(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, quotas(waiting=10), 1, kit.now)
    calls = [_taken(kit, (store, kit.second)[n % 2], 3) for n in range(8)]
    assert sum(await asyncio.gather(*calls)) == 3
    assert await kit.second.task_totals() == {PENDING: 9}


async def a_project_may_refuse_what_it_cannot_run_at_once(store: Store, kit: Kit) -> None:
    want = Project(PROJECT, quotas=Quotas(running=3, cpu=1.0), on_full=OnFull.REFUSE)
    await store.change_project(PROJECT, lambda _: want, 1, kit.now)
    half = Lane.with_id("default", PROJECT, 5, Requirement("echo", resources=(("cpu", 0.75),)))
    await store.ensure_lanes([half])
    await kit.run_one(await kit.node(), lane=half)
    assert not await _taken(kit, store, 1, lane=half), "the cores are in use"
    assert await _taken(kit, store, 2)
    assert not await _taken(kit, store, 1), "one runs and two wait"


async def a_flow_is_taken_as_a_whole_or_not_at_all(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, quotas(waiting=3), 1, kit.now)
    steps = {"first": {}, "second": {"after": {"first": "success"}}}
    one, other = [await FlowKit.drafted(kit, steps) for _ in range(2)]
    claim = Claim("flows", "key", b"hash", kit.now + 1_000)
    await store.add_flow(one.new._replace(limited=(PROJECT,)), None, kit.now)
    async with kit.unchanged():
        with pytest.raises(OverLimit, match=r"quota 'waiting' of project .*: 2 of 3 wait"):
            await store.add_flow(other.new._replace(limited=(PROJECT,)), claim, kit.now)
    await store.change_project(PROJECT, quotas(waiting=4), 2, kit.now)
    added = await store.add_flow(other.new._replace(limited=(PROJECT,)), claim, kit.now)
    assert not added.is_replay, "what was refused has used up no key"
    again = await store.add_flow(other.new._replace(limited=(PROJECT,)), claim, kit.now)
    assert again.is_replay


async def of_ticks_as_many_fire_as_there_is_room_for(store: Store, kit: Kit) -> None:
    await store.change_project(PROJECT, quotas(waiting=2), 1, kit.now)
    schedules = [await made(kit) for _ in range(3)]
    at = kit.later(MINUTE_MS)
    firings = [firing._replace(limited=(PROJECT, "other")) for firing in await firings_due(kit)]
    report = await store.fire_schedules(firings, await kit.term(), kit.now)
    assert (report.fired, report.skipped) == (2, 1)
    statuses = [await ticks_of(kit, schedule) for schedule in schedules]
    assert sorted(status for ((_, status),) in statuses) == sorted(
        [TickStatus.FIRED, TickStatus.FIRED, TickStatus.REFUSED]
    )
    errors = [(await as_it_stands(kit, schedule)).last_error for schedule in schedules]
    assert [error for error in errors if error is not None] == [
        f"quota 'waiting' of project {PROJECT}: 2 of 2 wait, and 1 more would be above it"
    ]
    assert {when for ((when, _),) in statuses} == {at}
    assert await kit.second.task_totals() == await kit.second.count_rows() == {PENDING: 2}


async def a_run_by_hand_above_the_quota_changes_nothing(store: Store, kit: Kit) -> None:
    schedule = await made(kit, overlap=Overlap.CANCEL_PREVIOUS)
    claim = Claim("runs", "key", b"hash", kit.now + 1_000)
    first = await store.run_schedule(by_hand(kit, schedule), kit.now)
    assert isinstance(first.item, Accepted)
    await store.change_project(PROJECT, quotas(waiting=0), 1, kit.now)
    run = by_hand(kit, schedule, claim=claim, limited=(PROJECT,))
    async with kit.unchanged():
        with pytest.raises(OverLimit, match="quota 'waiting'"):
            await store.run_schedule(run, kit.now)
    assert await kit.status(first.item.id) is PENDING, "nobody was cancelled for it"
    await store.change_project(PROJECT, quotas(waiting=1), 2, kit.now)
    again = await store.run_schedule(run, kit.now)
    assert (isinstance(again.item, Accepted), again.is_replay) == (True, False), "the place of the one it cancels"


async def _taken(kit: Kit, store: Store, count: int, *, project: str = PROJECT, lane: Lane | None = None) -> bool:
    lane = lane or (kit.lane if project == PROJECT else await kit.known_lane(project))
    items = [kit.new_task(lane=lane) for _ in range(count)]
    (answer,) = (await store.add_tasks([Submission(items, limited=(project,))], kit.now)).answers
    assert (answer.over_quota is None) == all(isinstance(item, Accepted) for item in answer.items)
    return answer.over_quota is None
