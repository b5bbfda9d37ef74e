"""The durable side of the ready index, what is due and overdue, and paused queues."""

from dataclasses import replace

from crawlfleet.model.execution import End
from crawlfleet.model.queue import Queue
from crawlfleet.model.status import Recall
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.queue_store import HeldTask
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import Kit


async def lanes_with_pending_tasks_are_listed(store: Store, kit: Kit) -> None:
    lanes = [await kit.known_lane(priority=priority) for priority in (1, 2, 3, 10)]
    for lane in lanes[:3]:
        await kit.submit(2, lane=lane)
    await kit.submit(1, lane=lanes[3], due_at=kit.now + 1)
    assert sorted(await kit.second.ready_lanes()) == sorted(lane.id for lane in lanes[:3])


async def no_lane_is_listed_when_nothing_is_pending(store: Store, kit: Kit) -> None:
    await kit.run_one(await kit.node())
    assert await kit.second.ready_lanes() == []


async def the_head_of_a_lane_is_its_oldest_pending_task(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(5)
    other = await kit.known_lane(priority=9)
    await kit.submit(1, lane=other)
    await kit.assign(tasks[:1], await kit.node())
    assert await kit.second.ready_heads(kit.lane.id, 3) == tasks[1:4]
    assert await kit.second.ready_heads(12_345, 3) == []


async def what_placement_needs_is_seen_in_one_look(store: Store, kit: Kit) -> None:
    node, removed = await kit.node(), await kit.node()
    await store.unregister_node(removed.id, kit.now)
    urgent = await kit.known_lane(priority=10)
    tasks, hot = await kit.submit(3), await kit.submit(2, lane=urgent)
    await kit.assign(tasks[:1], node)
    await store.set_queue_paused("night", True, kit.now)
    await store.set_queue_order("news", True, kit.now)
    news = await kit.known_lane(queue="news")
    fresh = await kit.submit(2, lane=news)
    await store.change_project("shop", lambda have: replace(have, weight=2.0), 7, kit.now)
    view = await kit.second.placement_view()
    assert [found.id for found in view.nodes] == [node.id]
    assert [cluster.name for cluster in view.clusters] == ["default"]
    assert view.paused_queues == {"night"}
    assert view.queues == [Queue("news", is_lifo=True), Queue("night", is_paused=True)]
    assert view.ready_heads == {kit.lane.id: tasks[1], urgent.id: hot[0], news.id: fresh[0]}
    assert view.ready_ends == {news.id: fresh[1]}
    assert [(project.name, project.weight, project.fence) for project in view.projects] == [("shop", 2.0, 7)]


async def the_end_of_a_lane_is_its_newest_pending_task(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(5)
    await kit.submit(1, lane=await kit.known_lane(priority=9))
    await kit.assign(tasks[-1:], await kit.node())
    assert await kit.second.ready_ends(kit.lane.id, 3) == [tasks[3], tasks[2], tasks[1]]
    assert await kit.second.ready_ends(12_345, 3) == []


async def parts_of_many_lanes_are_read_at_once(store: Store, kit: Kit) -> None:
    other = await kit.known_lane(priority=9)
    tasks, others = await kit.submit(4), await kit.submit(4, lane=other)
    found = await kit.second.ready_parts([kit.lane.id, 12_345], [other.id], 2)
    assert found == {kit.lane.id: tasks[:2], other.id: [others[3], others[2]], 12_345: []}
    assert await kit.second.ready_parts([], [], 2) == {}


async def a_queue_has_the_order_it_was_given(store: Store, kit: Kit) -> None:
    assert await store.set_queue_order("news", True, kit.now)
    async with kit.unchanged():
        assert not await store.set_queue_order("news", True, kit.later())
    await store.set_queue_paused("news", True, kit.now)
    assert await kit.second.list_queues() == [Queue("news", is_paused=True, is_lifo=True)]
    assert await store.set_queue_order("news", False, kit.now)
    assert not await store.set_queue_order("default", False, kit.now)
    orders = [event.data for event in await kit.events() if event.kind == "queue.changed"]
    assert orders == [{"queue": "news", "order": "lifo"}, {"queue": "news", "order": "fifo"}]


async def a_task_that_comes_back_stands_at_its_old_place(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(3)
    (run,) = await kit.assign(tasks[:1], await kit.node())
    await kit.finish(run, End.RETURNED)
    assert await kit.second.ready_heads(kit.lane.id, 10) == tasks


async def what_is_due_is_found_earliest_first(store: Store, kit: Kit) -> None:
    late, early, later = [await kit.submit_one(due_at=kit.now + ms) for ms in (2_000, 1_000, 3_000)]
    kit.later(2_000)
    assert await kit.second.due_tasks(kit.now, 10) == [early, late]
    assert await kit.second.due_tasks(kit.now, 1) == [early]
    assert await kit.second.due_tasks(kit.later(), 10) == [early, late, later]


async def a_retry_is_due_after_its_back_off(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), retry=RetryPolicy(3, 10.0, 60.0))
    await kit.finish(run, End.TIMED_OUT)
    assert await kit.second.due_tasks(kit.now, 10) == []
    assert await kit.second.due_tasks(kit.later(10_000), 10) == [run.task]


async def what_was_released_is_due_no_more(store: Store, kit: Kit) -> None:
    task = await kit.submit_one(due_at=kit.now + 1)
    await store.change_tasks([task], task_state_machine.release_due(kit.later()), kit.now)
    assert await kit.second.due_tasks(kit.now, 10) == []


async def an_execution_past_its_deadline_is_overdue(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node, timeout_s=1)
    await kit.run_one(node, timeout_s=10_000)
    await kit.start(run)
    kit.later(11_000 - 1)
    assert await kit.second.overdue_tasks(kit.now, 10) == []
    kit.later(1)
    assert await kit.second.overdue_tasks(kit.now, 10) == [HeldTask(node.id, run.task)]


async def overdue_executions_are_paged_by_node_and_task(store: Store, kit: Kit) -> None:
    runs = [await kit.run_one(await kit.node(), timeout_s=1) for _ in range(3)]
    kit.later(3_600_000)
    held = sorted(HeldTask(run.node.id, run.task) for run in runs)
    assert await kit.second.overdue_tasks(kit.now, 2) == held[:2]
    assert await kit.second.overdue_tasks(kit.now, 2, held[1]) == held[2:]
    assert await kit.second.overdue_tasks(kit.now, 2, held[2]) == []


async def an_overdue_execution_is_recalled_once(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), timeout_s=1)
    kit.later(3_600_000)
    applied = await store.change_tasks([run.task], task_state_machine.recall_overdue(kit.now), kit.now)
    assert applied.nodes_to_wake == {run.node.id}
    assert (await kit.live(run.task)).recall is Recall.DEADLINE
    assert await kit.second.overdue_tasks(kit.now, 10) == []


async def what_no_node_holds_is_never_overdue(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), timeout_s=1)
    await kit.finish(run, End.RETURNED)
    assert await kit.second.overdue_tasks(kit.later(3_600_000), 10) == []


async def a_paused_queue_is_known_to_all(store: Store, kit: Kit) -> None:
    assert await store.set_queue_paused("night", True, kit.now)
    assert await kit.second.paused_queues() == {"night"}
    assert await store.set_queue_paused("night", False, kit.now)
    assert await kit.second.paused_queues() == set()


async def pausing_what_is_paused_changes_nothing(store: Store, kit: Kit) -> None:
    await store.set_queue_paused("night", True, kit.now)
    async with kit.unchanged():
        assert not await store.set_queue_paused("night", True, kit.later())


async def resuming_a_queue_that_was_never_paused_changes_nothing_visible(store: Store, kit: Kit) -> None:
    assert not await store.set_queue_paused("night", False, kit.now)
    assert await kit.second.paused_queues() == set()
    assert [event.kind for event in await kit.events() if event.kind.startswith("queue.")] == []
