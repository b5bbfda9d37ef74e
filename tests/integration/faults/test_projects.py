"""Projects and queues under a real dispatcher: shares, quotas to the last task, last in first out, and no starving."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from crawlfleet.control.loops.dispatcher import QUANTUM
from crawlfleet.errors import OverLimit, StoreUnavailable
from crawlfleet.model.execution import End, Outcome
from crawlfleet.model.ids import TaskId
from crawlfleet.model.project import OnFull, Project, Quotas
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.task_store import Applied
from crawlfleet.scheduling.placement.lane_order import OLDEST_INTERVAL
from tests.integration.faults.faults_kit import Fleet, accepted_ids, echo
from tests.integration.faults.faults_stores import Stores, store_between

pytestmark = [pytest.mark.integration]

ASSIGNED, PENDING = TaskStatus.ASSIGNED, TaskStatus.PENDING


async def set_quotas(fleet: Fleet, project: str, **fields: Any) -> Project:
    return await fleet.master.projects.change_project(project, lambda have: replace(have, **fields))


async def held(fleet: Fleet, project: str) -> int:
    return (await fleet.store.project_uses([project]))[project].held.running


async def end_some(fleet: Fleet, count: int, project: str | None = None) -> int:
    rows = [
        row for tasks in (await fleet.store.held_tasks([node.id for node in fleet.nodes])).values() for row in tasks
    ]
    lanes = {lane.id: lane for lane in await fleet.store.load_lanes([row.lane for row in rows])}
    mine = [row for row in rows if project in (None, lanes[row.lane].project)][:count]
    await fleet.master.finish.finish_outcomes([Outcome(row.node, row.id, row.execution, End.COMPLETED) for row in mine])
    return len(mine)


# -- shares


async def test_a_flood_of_one_project_does_not_hold_up_another(stores: Stores) -> None:
    """100,000 of A, ten of B: B is placed in the first pass after it came, and A goes on."""
    fleet = Fleet(await stores.fresh(), window=2_000)
    await fleet.start()
    flood = 100_000 if stores.is_quick else 20_000
    for _ in range(flood // 10_000):
        await fleet.master.submit.submit_tasks([echo(project_id="a")] * 10_000)
    await fleet.node(slots=2 * QUANTUM)
    await fleet.dispatch()
    assert await held(fleet, "a") == 2 * QUANTUM
    few = accepted_ids(await fleet.master.submit.submit_tasks([echo(project_id="b")] * 10))
    await end_some(fleet, 20)
    await fleet.dispatch()
    assert {await fleet.status(task) for task in few} == {ASSIGNED}
    assert await held(fleet, "a") == 2 * QUANTUM - 10


async def test_low_priority_gets_its_turn_under_a_flood_of_high(fleet: Fleet) -> None:
    node = await fleet.node(slots=5)
    low = await fleet.tasks(3, priority=1)
    for _ in range(12):
        await fleet.tasks(30, priority=10)
        fleet.clock.advance(58.0)
        await fleet.dispatch()
        await node.sync()
        node.end_all()
        await node.sync()
    assert {await fleet.status(task) for task in low} == {TaskStatus.COMPLETED}


async def test_a_trickle_of_high_priority_overtakes_a_flood_of_low(fleet: Fleet) -> None:
    await fleet.node(slots=5)
    await fleet.tasks(1_000, priority=2)
    await fleet.dispatch()
    for _ in range(5):
        (urgent,) = await fleet.tasks(priority=7)
        await end_some(fleet, 1)
        await fleet.dispatch()
        assert await fleet.status(urgent) is ASSIGNED


async def test_projects_share_by_weight_pass_after_pass(fleet: Fleet) -> None:
    await set_quotas(fleet, "b", weight=3.0)
    await fleet.node(slots=400)
    for project in "ab":
        await fleet.tasks(4_000, project_id=project)
    placed: Counter[str] = Counter()
    for _ in range(8):
        before = {project: await held(fleet, project) for project in "ab"}
        await fleet.dispatch()
        for project in "ab":
            placed[project] += await held(fleet, project) - before[project]
        await end_some(fleet, 400)
    assert sum(placed.values()) == 8 * 400
    assert abs(placed["a"] - placed["b"] / 3) <= QUANTUM + QUANTUM / 3


# -- quotas


async def test_a_running_quota_is_kept_to_the_last_task(fleet: Fleet) -> None:
    await set_quotas(fleet, "p", quotas=Quotas(running=7))
    await fleet.node(slots=100)
    (first, *_) = await fleet.tasks(50, project_id="p")
    await fleet.tasks(5, project_id="q")
    await fleet.dispatch()
    assert (await held(fleet, "p"), await held(fleet, "q")) == (7, 5)
    await end_some(fleet, 3, "p")
    await fleet.dispatch()
    assert await held(fleet, "p") == 7
    assert await fleet.status(first) is TaskStatus.COMPLETED
    waiting = (await fleet.tasks(1, project_id="p"))[0]
    why = await fleet.master.why.explain_task(waiting)
    assert why.sentence == "quota 'running' of project p: 7 of 7 in use"
    assert (why.data["cause"], why.data["quota"], why.data["limit"]) == ("quota", "running", 7)


async def test_a_quota_below_what_runs_stops_nothing_and_starts_nothing(fleet: Fleet) -> None:
    await fleet.node(slots=100)
    await fleet.tasks(30, project_id="p")
    await fleet.dispatch()
    await set_quotas(fleet, "p", quotas=Quotas(running=4))
    await fleet.tasks(30, project_id="p")
    await fleet.dispatch()
    assert await held(fleet, "p") == 30
    await end_some(fleet, 27, "p")
    await fleet.dispatch()
    assert await held(fleet, "p") == 4


async def test_cores_and_memory_are_counted_as_they_are_reserved(fleet: Fleet) -> None:
    await set_quotas(fleet, "p", quotas=Quotas(cpu=2.0, memory_mb=512.0))
    node = await fleet.node(slots=100)
    node.description = replace(node.description, resources=(("cpu", 64.0), ("memory_mb", 65_536.0)))
    await fleet.master.register.register_node(node.description, f"join {node.description.name}")
    await node.join()
    await node.open()
    await node.sync()
    await fleet.tasks(20, project_id="p", min_resources={"cpu": 0.3})
    await fleet.tasks(20, project_id="p", min_resources={"memory_mb": 200})
    (huge,) = await fleet.tasks(1, project_id="p", min_resources={"cpu": 8})
    await fleet.dispatch()
    use = (await fleet.store.project_uses(["p"]))["p"].held
    assert use.reserved == {"cpu": 2.0, "memory_mb": 512.0}
    assert use.running == 4 + 2
    sentence = (await fleet.master.why.explain_task(huge)).sentence
    assert sentence == "asks for 8 cpu, more than the whole quota 'cpu' of project p: 2"


async def test_hands_keep_the_quota_and_the_leader_counts_them(fleet: Fleet) -> None:
    node = await fleet.node(slots=100)
    await set_quotas(fleet, "p", quotas=Quotas(running=3))
    tasks = await fleet.tasks(10, project_id="p")
    await fleet.master.pause.pause_queue("default")
    for task in tasks[:3]:
        assert isinstance(await fleet.master.assign.assign_task(task, node.id), int)
    refused = await fleet.master.assign.assign_task(tasks[3], node.id)
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.detail) == (Code.OVER_QUOTA, "quota 'running' of project p: 3 of 3 in use")
    await fleet.master.pause.resume_queue("default")
    await fleet.dispatch()
    assert await held(fleet, "p") == 3


async def test_a_hand_between_choice_and_commit_does_not_pass_the_quota(stores: Stores) -> None:
    """The leader has chosen; at this very moment somebody assigns the last place by hand."""
    fleet = Fleet(await stores.fresh(), window=200)
    waiting: list[TaskId] = []

    async def between(name: str, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        if name == "assign_tasks" and waiting:
            assert isinstance(await fleet.master.assign.assign_task(waiting.pop(), fleet.nodes[0].id), int)
        answer = await method(*args, **kwargs)
        if name == "assign_tasks":
            assert isinstance(answer, Applied)
        return answer

    await fleet.start(store_between(fleet.store, between))
    await fleet.node(slots=100)
    await set_quotas(fleet, "p", quotas=Quotas(running=5))
    waiting = [(await fleet.tasks(20, project_id="p"))[-1]]
    await fleet.dispatch()
    assert not waiting
    assert await held(fleet, "p") == 5
    await end_some(fleet, 5, "p")
    await fleet.dispatch()
    assert await held(fleet, "p") == 5


async def test_another_leader_knows_what_is_in_use(fleet: Fleet) -> None:
    await set_quotas(fleet, "p", quotas=Quotas(running=6))
    node = await fleet.node(slots=100)
    tasks = await fleet.tasks(20, project_id="p")
    await fleet.dispatch()
    await fleet.start()
    await fleet.dispatch()
    assert await held(fleet, "p") == 6
    await end_some(fleet, 2, "p")
    pending = [task for task in tasks if await fleet.status(task) is PENDING]
    assert isinstance(await fleet.master.assign.assign_task(pending[-1], node.id), int)
    await fleet.dispatch()
    assert await held(fleet, "p") == 6


async def test_quotas_hold_while_everything_changes_at_once(fleet: Fleet) -> None:
    """Hands, ends, new tasks and new quotas, with the leader in between."""
    node = await fleet.node(slots=60)
    most = 8
    await set_quotas(fleet, "p", quotas=Quotas(running=most))
    for round_ in range(12):
        tasks = await fleet.tasks(6, project_id="p")
        before = await held(fleet, "p")
        await asyncio.gather(
            fleet.dispatch(),
            fleet.master.assign.assign_task(tasks[0], node.id),
            fleet.master.assign.assign_task(tasks[1], node.id),
            set_quotas(fleet, "p", quotas=Quotas(running=most - round_ % 3)),
            end_some(fleet, round_ % 4, "p"),
        )
        assert await held(fleet, "p") <= max(most, before)
        await fleet.dispatch()
        assert await held(fleet, "p") <= max(most - round_ % 3, before)


# -- the door


async def test_a_full_project_is_told_when_to_come_again(fleet: Fleet) -> None:
    await set_quotas(fleet, "p", quotas=Quotas(waiting=10))
    await fleet.tasks(8, project_id="p")
    with pytest.raises(OverLimit, match="quota 'waiting' of project p: 8 of 10 wait") as told:
        await fleet.tasks(3, project_id="p")
    assert told.value.retry_after_s > 0
    await fleet.tasks(3, project_id="q")
    await fleet.tasks(2, project_id="p")
    assert (await fleet.store.project_uses(["p"]))["p"].waiting == 10
    await fleet.node(slots=4)
    await fleet.dispatch()
    assert len(await fleet.tasks(3, project_id="p")) == 3


async def test_the_same_request_again_is_answered_though_the_project_is_full(fleet: Fleet) -> None:
    await set_quotas(fleet, "p", quotas=Quotas(waiting=2))
    body = [echo(project_id="p")] * 2
    first = await fleet.master.submit.submit_tasks(body, scope="s", key="one")
    again = await fleet.master.submit.submit_tasks(body, scope="s", key="one")
    assert accepted_ids(again) == accepted_ids(first)
    with pytest.raises(OverLimit):
        await fleet.master.submit.submit_tasks(body, scope="s", key="two")
    await fleet.node(slots=5)
    await fleet.dispatch()
    assert len(accepted_ids(await fleet.master.submit.submit_tasks(body, scope="s", key="two"))) == 2


async def test_a_project_that_would_rather_refuse(fleet: Fleet) -> None:
    await set_quotas(fleet, "p", quotas=Quotas(running=3), on_full=OnFull.REFUSE)
    await fleet.tasks(3, project_id="p")
    with pytest.raises(OverLimit, match="quota 'running'"):
        await fleet.tasks(1, project_id="p")
    await fleet.node(slots=5)
    await fleet.dispatch()
    await end_some(fleet, 2, "p")
    assert len(await fleet.tasks(2, project_id="p")) == 2


# -- last in, first out


async def placed_in_order(fleet: Fleet, count: int) -> list[TaskId]:
    """One slot: what runs next, one after the other."""
    (node,) = fleet.nodes
    found = []
    for _ in range(count):
        await fleet.dispatch()
        found += [row.id for row in await fleet.held_by(node)]
        await end_some(fleet, 1)
    return found


async def test_the_last_goes_first_and_of_every_eight_one_is_the_oldest(fleet: Fleet) -> None:
    await fleet.node(slots=1)
    await fleet.master.pause.set_order("news", is_lifo=True)
    tasks = await fleet.tasks(30, queue="news")
    expected, left = [], list(tasks)
    for turn in range(1, 21):
        expected.append(left.pop(0) if turn % OLDEST_INTERVAL == 0 else left.pop())
    assert await placed_in_order(fleet, 20) == expected


async def test_the_oldest_of_a_busy_lane_has_its_turn_in_time(fleet: Fleet) -> None:
    """More come than are placed, and still a task with n older ones goes with the 8(n+1)-th at the latest."""
    await fleet.node(slots=1)
    await fleet.master.pause.set_order("news", is_lifo=True)
    old = await fleet.tasks(3, queue="news")
    placed: list[TaskId] = []
    while len(placed) < OLDEST_INTERVAL * len(old):
        await fleet.tasks(2, queue="news")
        placed += await placed_in_order(fleet, 1)
    for older, task in enumerate(old):
        assert task in placed[: OLDEST_INTERVAL * (older + 1)]


async def test_a_new_order_holds_for_those_that_wait(stores: Stores) -> None:
    fleet = Fleet(await stores.fresh(), window=5)
    await fleet.start()
    await fleet.node(slots=1)
    tasks, other = await fleet.tasks(20, queue="news"), await fleet.tasks(2, queue="other", priority=1)
    assert await placed_in_order(fleet, 2) == tasks[:2]
    assert await fleet.master.pause.set_order("news", is_lifo=True)
    assert await placed_in_order(fleet, 3) == [tasks[-1], tasks[-2], tasks[-3]]
    (late,) = await fleet.tasks(queue="news")
    assert await placed_in_order(fleet, 2) == [late, tasks[-4]]
    assert await fleet.master.pause.set_order("news", is_lifo=False)
    assert await placed_in_order(fleet, 13) == tasks[2:15]
    await placed_in_order(fleet, 4)
    assert {await fleet.status(task) for task in (*tasks, *other)} == {TaskStatus.COMPLETED}


async def test_a_low_lane_that_is_last_in_first_out_ages_by_its_oldest(fleet: Fleet) -> None:
    await fleet.node(slots=1)
    await fleet.master.pause.set_order("news", is_lifo=True)
    await fleet.tasks(2, queue="news", priority=1)
    fleet.clock.advance(10 * 60.0)
    (fresh,) = await fleet.tasks(queue="news", priority=1)
    await fleet.tasks(5, priority=9)
    assert await placed_in_order(fleet, 1) == [fresh]


async def test_what_could_not_be_committed_is_offered_the_right_way_round(stores: Stores) -> None:
    fleet = Fleet(await stores.fresh(), window=200)
    is_away = False

    async def between(name: str, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        if name == "assign_tasks" and is_away:
            raise StoreUnavailable("away")
        return await method(*args, **kwargs)

    await fleet.start(store_between(fleet.store, between))
    await fleet.node(slots=1)
    await fleet.master.pause.set_order("news", is_lifo=True)
    tasks = await fleet.tasks(5, queue="news")
    is_away = True
    with pytest.raises(StoreUnavailable):
        await fleet.dispatch()
    is_away = False
    assert await placed_in_order(fleet, 5) == tasks[::-1]


async def test_a_cancelled_task_leaves_a_window_that_is_newest_first(fleet: Fleet) -> None:
    await fleet.node(slots=1)
    await fleet.master.pause.set_order("news", is_lifo=True)
    tasks = await fleet.tasks(4, queue="news")
    await fleet.master.task_changes.cancel_tasks([tasks[-1]], "no")
    await fleet.master.task_changes.reprioritize_tasks([tasks[-2]], 1)
    assert await placed_in_order(fleet, 3) == [tasks[1], tasks[0], tasks[2]]


# -- categories


async def test_a_node_for_some_categories_takes_no_other_tasks(fleet: Fleet) -> None:
    node = await fleet.node(slots=10)
    node.description = replace(node.description, capabilities=(("categories", ("news", "sport")),))
    await fleet.master.register.register_node(node.description, f"join {node.description.name}")
    await node.join()
    await node.open()
    await node.sync()
    (plain,), (sport,) = await fleet.tasks(), await fleet.tasks(categories=["sport", "weather"])
    await fleet.dispatch()
    assert (await fleet.status(plain), await fleet.status(sport)) == (PENDING, ASSIGNED)
    assert (await fleet.master.why.explain_task(plain)).sentence == "0 of 1 node: 1 for other categories"
