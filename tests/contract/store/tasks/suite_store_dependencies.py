"""Tasks that depend on others."""

import asyncio
from collections.abc import Awaitable, Callable

from crawlfleet.model.execution import End
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Applied, Submission
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import Kit, Run, accepted

ROUNDS = 30
PENDING, WAITING, CANCELLED = TaskStatus.PENDING, TaskStatus.WAITING, TaskStatus.CANCELLED


async def a_child_waits_for_its_parent(store: Store, kit: Kit) -> None:
    parent = await kit.submit_one()
    child = kit.new_task(parents=[parent])
    answer = await kit.add([child])
    assert accepted(answer.items[0]).status is WAITING
    assert (await kit.record(child.id)).waits == 1
    assert await kit.second.awaited_parents(child.id) == {parent: PENDING}


async def a_completed_parent_releases_its_child(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task])
    applied = await kit.complete(run)
    assert applied.after == {run.task: TaskStatus.COMPLETED, child: PENDING}
    assert applied.ready == {kit.lane.id: [child]}
    assert await kit.status(child) is PENDING
    assert await kit.second.awaited_parents(child) == {}


async def a_parent_that_completes_by_a_decision_releases_its_child(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task])
    applied = await kit.finish(run, End.COMPLETED)
    assert applied.after == {run.task: TaskStatus.COMPLETED, child: PENDING}


async def a_failed_parent_cancels_its_child_with_the_reason(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task])
    applied = await kit.fail(run)
    assert applied.after == {run.task: TaskStatus.FAILED, child: CANCELLED}
    record = await kit.record(child)
    assert record.status is CANCELLED
    assert record.reason == f"depends on {task_text(run.task)}, which ended failed"


async def a_cancelled_parent_cancels_its_child(store: Store, kit: Kit) -> None:
    parent = await kit.submit_one()
    child = await kit.submit_one(parents=[parent])
    await kit.cancel(parent)
    assert await kit.status(child) is CANCELLED


async def a_child_of_a_completed_parent_is_pending_at_once(store: Store, kit: Kit) -> None:
    parent = await kit.ended_completed()
    answer = await kit.add([kit.new_task(parents=[parent])])
    assert accepted(answer.items[0]).status is PENDING


async def a_child_of_a_failed_parent_is_cancelled_at_once_with_the_reason(store: Store, kit: Kit) -> None:
    parent = await kit.ended_failed()
    child = kit.new_task(parents=[parent])
    answer = await kit.add([child])
    assert accepted(answer.items[0]).status is CANCELLED
    record = await kit.record(child.id)
    assert record.reason == f"depends on {task_text(parent)}, which ended failed"
    assert record.ended_at == kit.now


async def a_child_of_a_cancelled_parent_is_cancelled_at_once(store: Store, kit: Kit) -> None:
    parent = await kit.submit_one()
    await kit.cancel(parent)
    answer = await kit.add([kit.new_task(parents=[parent])])
    assert accepted(answer.items[0]).status is CANCELLED


async def one_ended_parent_among_open_ones_cancels_a_new_child(store: Store, kit: Kit) -> None:
    child = kit.new_task(parents=[await kit.submit_one(), await kit.ended_failed()])
    answer = await kit.add([child])
    assert accepted(answer.items[0]).status is CANCELLED
    assert await kit.second.awaited_parents(child.id) == {}


async def a_child_waits_only_for_the_parents_still_open(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[await kit.ended_completed(), run.task])
    assert (await kit.record(child)).waits == 1
    await kit.complete(run)
    assert await kit.status(child) is PENDING


async def a_parent_named_twice_counts_once(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task, run.task])
    assert (await kit.record(child)).waits == 1
    await kit.complete(run)
    assert await kit.status(child) is PENDING


async def a_child_waits_for_the_last_of_its_parents(store: Store, kit: Kit) -> None:
    first, last = await kit.run(await kit.node(), 2)
    child = await kit.submit_one(parents=[first.task, last.task])
    applied = await kit.complete(first)
    assert applied.ready == {}
    assert (await kit.record(child)).waits == 1
    await kit.complete(last)
    assert await kit.status(child) is PENDING


async def parents_that_complete_together_release_their_child_once(store: Store, kit: Kit) -> None:
    runs = await kit.run(await kit.node(), 3)
    child = await kit.submit_one(parents=[run.task for run in runs])
    applied = await kit.complete(*runs)
    assert applied.ready == {kit.lane.id: [child]}


async def a_parent_that_is_retried_keeps_its_child_waiting(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task])
    await kit.end(run.node)
    assert await kit.status(run.task) is PENDING
    assert await kit.status(child) is WAITING


async def a_cancel_reaches_all_levels_in_one_transaction(store: Store, kit: Kit) -> None:
    line = [await kit.submit_one()]
    for _ in range(5):
        line.append(await kit.submit_one(parents=[line[-1]]))
    applied = await kit.cancel(line[0])
    assert applied.after == dict.fromkeys(line, CANCELLED)
    record = await kit.record(line[-1])
    assert record.reason == f"depends on {task_text(line[-2])}, which ended cancelled"


async def a_diamond_is_cancelled_once(store: Store, kit: Kit) -> None:
    top = await kit.submit_one()
    left, right = await kit.submit(2, parents=[top])
    bottom = await kit.submit_one(parents=[left, right])
    applied = await kit.cancel(top)
    assert applied.after == dict.fromkeys((top, left, right, bottom), CANCELLED)
    assert await kit.second.task_totals() == {CANCELLED: 4}


async def a_diamond_runs_through(store: Store, kit: Kit) -> None:
    node = await kit.node()
    top = await kit.run_one(node)
    sides = await kit.submit(2, parents=[top.task])
    bottom = await kit.submit_one(parents=sides)
    await kit.complete(top)
    for side in await kit.assign(sides, node):
        assert await kit.status(bottom) is WAITING
        await kit.complete(side)
    assert await kit.status(bottom) is PENDING


async def a_long_and_a_short_way_to_one_child_cancel_it_once(store: Store, kit: Kit) -> None:
    top = await kit.submit_one()
    middle = await kit.submit_one(parents=[top])
    bottom = await kit.submit_one(parents=[top, middle])
    await kit.cancel(top)
    assert await kit.second.task_totals() == {CANCELLED: 3}
    assert [event.data["task"] for event in await kit.events() if event.kind == "task.cancelled"].count(bottom) == 1


async def parent_and_child_can_be_cancelled_together(store: Store, kit: Kit) -> None:
    parent = await kit.submit_one()
    child = await kit.submit_one(parents=[parent])
    applied = await kit.cancel(child, parent)
    assert applied.after == {parent: CANCELLED, child: CANCELLED}
    assert (await kit.record(child)).reason == "a person said so"
    assert await kit.second.task_totals() == {CANCELLED: 2}


async def a_child_cancelled_on_its_own_is_left_alone_by_its_parent(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task])
    await kit.cancel(child)
    await kit.complete(run)
    assert (await kit.record(child)).reason == "a person said so"


async def a_child_retried_by_a_person_no_longer_waits_for_its_parents(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task])
    await kit.cancel(child)
    await store.reopen_tasks([child], kit.now)
    assert await kit.second.awaited_parents(child) == {}
    await kit.fail(run)
    assert await kit.status(child) is PENDING


async def a_child_of_a_later_time_waits_on_after_its_parent(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task], due_at=kit.now + 5_000)
    await kit.complete(run)
    assert await kit.status(child) is WAITING
    assert await kit.second.due_tasks(kit.now, 10) == []
    assert await kit.second.due_tasks(kit.later(5_000), 10) == [child]
    await store.change_tasks([child], task_state_machine.release_due(kit.now), kit.now)
    assert await kit.status(child) is PENDING


async def a_child_whose_time_has_come_waits_on_for_its_parent(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task], due_at=kit.now + 5_000)
    kit.later(5_000)
    assert await kit.second.due_tasks(kit.now, 10) == []
    await kit.complete(run)
    assert await kit.status(child) is PENDING


async def no_child_added_while_its_parent_completes_waits_for_ever(store: Store, kit: Kit) -> None:
    await _race_with_the_end_of_a_parent(kit, kit.complete, PENDING)


async def no_child_added_while_its_parent_fails_waits_for_ever(store: Store, kit: Kit) -> None:
    await _race_with_the_end_of_a_parent(kit, kit.fail, CANCELLED)


async def no_grandchild_added_while_its_line_is_cancelled_waits_for_ever(store: Store, kit: Kit) -> None:
    for _ in range(ROUNDS):
        grandparent = await kit.submit_one()
        parent = await kit.submit_one(parents=[grandparent])
        grandchild = kit.new_task(parents=[parent])
        await _at_once(kit, kit.second.add_tasks([Submission([grandchild])], kit.now), kit.cancel(grandparent))
        assert await kit.status(grandchild.id) is CANCELLED


async def two_parents_that_complete_at_once_release_their_child(store: Store, kit: Kit) -> None:
    nodes = [await kit.node(), await kit.node()]
    for _ in range(ROUNDS):
        runs = [await kit.run_one(node) for node in nodes]
        child = await kit.submit_one(parents=[run.task for run in runs])
        await asyncio.gather(*(kit.complete(run) for run in runs))
        assert await kit.status(child) is PENDING


async def a_child_of_a_parent_that_is_being_retried_is_never_refused(store: Store, kit: Kit) -> None:
    parent = await kit.submit_one()
    for _ in range(ROUNDS):
        await kit.cancel(parent)
        child = kit.new_task(parents=[parent])
        await _at_once(kit, store.reopen_tasks([parent], kit.now), kit.second.add_tasks([Submission([child])], kit.now))
        assert child.id in await kit.second.load_tasks([child.id])


async def _race_with_the_end_of_a_parent(kit: Kit, end: Callable[[Run], Awaitable[Applied]], want: TaskStatus) -> None:
    node = await kit.node()
    children: list[TaskId] = []
    for _ in range(ROUNDS):
        parent = await kit.run_one(node)
        batch = [kit.new_task(parents=[parent.task]) for _ in range(3)]
        adding = [kit.second.add_tasks([Submission([child])], kit.now) for child in batch]
        await _at_once(kit, end(parent), *adding)
        children += [child.id for child in batch]
    records = await kit.second.load_tasks(children)
    assert {record.status for record in records.values()} == {want}
    assert len(records) == len(children)


async def _at_once(kit: Kit, *calls: Awaitable[object]) -> None:
    await asyncio.gather(*kit.rng.sample(calls, len(calls)))
