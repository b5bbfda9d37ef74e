"""Giving pending tasks to nodes."""

import asyncio

from crawlfleet.model.instants import ms
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import NodeStatus, TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Assignment
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import Kit, ReadyNode

ROUNDS = 30
ASSIGNED, PENDING = TaskStatus.ASSIGNED, TaskStatus.PENDING


async def an_assigned_task_is_held_by_its_node(store: Store, kit: Kit) -> None:
    node, task = await kit.node(), await kit.submit_one()
    item = await kit.assignment(task, node)
    applied = await store.assign_tasks([item], None, kit.now)
    assert applied.after == {task: ASSIGNED}
    assert (applied.refused, applied.ready, applied.nodes_to_wake) == ({}, {}, {node.id})
    (row,) = (await kit.second.held_tasks([node.id]))[node.id]
    assert (row.id, row.status, row.node, row.session) == (task, ASSIGNED, node.id, node.session)
    assert (row.execution, row.assigned_at) == (item.execution, kit.now)


async def an_execution_has_its_timeout_and_the_way_to_its_node_before_its_deadline(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), timeout_s=600)
    grace_ms = ms(task_state_machine.START_GRACE_S + task_state_machine.DEADLINE_GRACE_S)
    assert (await kit.live(run.task)).deadline_at == kit.now + 600_000 + grace_ms


async def an_assigned_task_no_longer_stands_in_its_lane(store: Store, kit: Kit) -> None:
    await kit.run_one(await kit.node())
    assert await kit.second.ready_lanes() == []
    assert await kit.second.ready_heads(kit.lane.id, 10) == []


async def what_a_node_runs_is_delivered_whole(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), parameters=b'{"url":"https://a.example/"}')
    delivery = (await kit.second.load_deliveries([run.task]))[run.task]
    assert (delivery.task, delivery.task_type) == (run.task, "echo")
    assert delivery.parameters == b'{"url":"https://a.example/"}'


async def the_context_of_a_traced_submission_is_delivered_with_each_execution(store: Store, kit: Kit) -> None:
    specs = (b'{"traceparent":"00-a-b-01","retry":{"max_retries":1}}', b'{"content_features":{"traceparent":1}}', None)
    tasks = [kit.new_task()._replace(spec=spec) for spec in specs]
    await kit.add(tasks)
    deliveries = await kit.second.load_deliveries([task.id for task in tasks])
    assert [deliveries[task.id].traceparent for task in tasks] == ["00-a-b-01", "", ""]


async def what_is_final_is_not_delivered(store: Store, kit: Kit) -> None:
    task = await kit.ended_completed()
    assert await kit.second.load_deliveries([task, 12_345]) == {}


async def a_thousand_are_assigned_but_for_the_one_that_is_not_pending(store: Store, kit: Kit) -> None:
    node, tasks = await kit.node(), await kit.submit(1_000)
    batch = [await kit.assignment(tasks[0], node)]
    batch = [batch[0]._replace(task=task, execution=kit.ids.new_id()) for task in tasks]
    await kit.cancel(tasks[617])
    applied = await store.assign_tasks(batch, None, kit.now)
    assert {task: refusal.code for task, refusal in applied.refused.items()} == {tasks[617]: Code.NOT_READY}
    assert applied.after == {task: ASSIGNED for task in tasks if task != tasks[617]}
    assert await kit.second.task_totals() == {ASSIGNED: 999, TaskStatus.CANCELLED: 1}


async def a_task_that_is_held_is_not_assigned_again(store: Store, kit: Kit) -> None:
    run, other = await kit.run_one(await kit.node()), await kit.node()
    await _is_refused(kit, await kit.assignment(run.task, other), Code.NOT_READY)


async def a_task_that_waits_is_not_assigned(store: Store, kit: Kit) -> None:
    task = await kit.submit_one(due_at=kit.now + 1)
    await _is_refused(kit, await kit.assignment(task, await kit.node()), Code.NOT_READY)


async def a_task_that_is_final_is_not_assigned(store: Store, kit: Kit) -> None:
    task, node = await kit.submit_one(), await kit.node()
    item = await kit.assignment(task, node)
    await kit.cancel(task)
    await _is_refused(kit, item, Code.NOT_READY)


async def an_unknown_task_is_not_assigned(store: Store, kit: Kit) -> None:
    item = await kit.assignment(await kit.submit_one(), await kit.node())
    await _is_refused(kit, item._replace(task=12_345), Code.NOT_READY)


async def a_task_that_changed_its_lane_is_not_assigned_from_the_old_one(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    item = await kit.assignment(task, await kit.node())
    urgent = await kit.known_lane(priority=10)
    await store.change_tasks([task], task_state_machine.change_lane({kit.lane.id: urgent.id}), kit.now)
    await _is_refused(kit, item, Code.NOT_READY)


async def an_unknown_node_gets_nothing(store: Store, kit: Kit) -> None:
    item = await kit.assignment(await kit.submit_one(), ReadyNode(12_345, 1))
    await _is_refused(kit, item, Code.NODE_NOT_READY)


async def a_node_that_never_synced_gets_nothing(store: Store, kit: Kit) -> None:
    node = await kit.open_session(await kit.join())
    await _is_refused(kit, await kit.assignment(await kit.submit_one(), node), Code.NODE_NOT_READY)


async def a_node_whose_session_ended_gets_nothing(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await kit.end(node, NodeStatus.OFFLINE)
    await _is_refused(kit, await kit.assignment(await kit.submit_one(), node), Code.NODE_NOT_READY)


async def an_older_session_of_a_node_gets_nothing(store: Store, kit: Kit) -> None:
    old = await kit.node()
    await kit.online(old.id)
    await _is_refused(kit, await kit.assignment(await kit.submit_one(), old), Code.NODE_NOT_READY)


async def a_node_in_maintenance_gets_nothing(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.set_maintenance(node.id, None, True, kit.now)
    await _is_refused(kit, await kit.assignment(await kit.submit_one(), node), Code.NODE_NOT_READY)


async def a_removed_node_gets_nothing(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.unregister_node(node.id, kit.now)
    await _is_refused(kit, await kit.assignment(await kit.submit_one(), node), Code.NODE_NOT_READY)


async def the_refused_one_does_not_harm_its_neighbours(store: Store, kit: Kit) -> None:
    ready, gone = await kit.node(), await kit.node()
    await kit.end(gone)
    first, second, third = await kit.submit(3)
    await kit.cancel(third)
    batch = [
        await kit.assignment(first, gone),
        await kit.assignment(second, ready),
        Assignment(third, kit.lane.id, kit.ids.new_id(), ready.id, ready.session),
    ]
    applied = await store.assign_tasks(batch, None, kit.now)
    assert applied.after == {second: ASSIGNED}
    assert {task: refusal.code for task, refusal in applied.refused.items()} == {
        first: Code.NODE_NOT_READY,
        third: Code.NOT_READY,
    }
    assert applied.nodes_to_wake == {ready.id}


async def a_task_named_twice_is_assigned_once(store: Store, kit: Kit) -> None:
    node, other, task = await kit.node(), await kit.node(), await kit.submit_one()
    first, second = await kit.assignment(task, node), await kit.assignment(task, other)
    applied = await store.assign_tasks([first, second], None, kit.now)
    assert applied.after == {task: ASSIGNED}
    assert applied.nodes_to_wake == {node.id}
    assert (await kit.live(task)).execution == first.execution
    assert await kit.second.task_totals() == {ASSIGNED: 1}
    assigned = [event.data for event in await kit.events() if event.kind == "task.assigned"]
    assert [(data["execution"], data["node"]) for data in assigned] == [(first.execution, node.id)]


async def assigning_nothing_changes_nothing(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        assert (await store.assign_tasks([], None, kit.now)).after == {}


async def of_two_leaders_that_assign_one_task_only_one_does(store: Store, kit: Kit) -> None:
    nodes = [await kit.node(), await kit.node()]
    for task in await kit.submit(ROUNDS):
        items = [await kit.assignment(task, node) for node in nodes]
        both = await asyncio.gather(
            store.assign_tasks(items[:1], None, kit.now), kit.second.assign_tasks(items[1:], None, kit.now)
        )
        moved = [applied for applied in both if applied.after]
        assert len(moved) == 1
        (winner,) = moved[0].nodes_to_wake
        assert (await kit.live(task)).node == winner
    assert await kit.second.task_totals() == {ASSIGNED: ROUNDS}


async def nothing_stays_assigned_to_a_session_that_ends_meanwhile(store: Store, kit: Kit) -> None:
    node = await kit.node()
    for _ in range(ROUNDS):
        tasks = await kit.submit(3)
        first = await kit.assignment(tasks[0], node)
        batch = [first._replace(task=task, execution=kit.ids.new_id()) for task in tasks]
        ending = kit.second.end_session(node.id, node.session, NodeStatus.UNRESPONSIVE, kit.lose(), kit.now)
        calls = [store.assign_tasks(batch, None, kit.now), ending]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        assert await kit.second.held_tasks([node.id]) == {node.id: []}
        assert {(await kit.live(task)).status for task in tasks} == {PENDING}
        node = await kit.online(node.id)


async def a_cancel_at_the_moment_of_assigning_leaves_one_truth(store: Store, kit: Kit) -> None:
    node = await kit.node()
    for task in await kit.submit(ROUNDS):
        item = await kit.assignment(task, node)
        calls = [
            store.assign_tasks([item], None, kit.now),
            kit.second.change_tasks([task], task_state_machine.cancel_task("no"), kit.now),
        ]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        record = await kit.record(task)
        is_final, is_recalled = record.status is TaskStatus.CANCELLED, record.recall.word == "cancel"
        assert is_final != is_recalled
        assert (record.status is ASSIGNED) == is_recalled


async def _is_refused(kit: Kit, item: Assignment, code: Code) -> None:
    async with kit.unchanged():
        applied = await kit.store.assign_tasks([item], None, kit.now)
    assert {task: refusal.code for task, refusal in applied.refused.items()} == {item.task: code}
    assert (applied.after, applied.nodes_to_wake) == ({}, set())
