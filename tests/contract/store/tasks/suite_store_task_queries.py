"""What people look at: records, lists and pages."""

import asyncio
from typing import Any

from crawlfleet.model.execution import End
from crawlfleet.model.ids import TaskId
from crawlfleet.model.status import ExecutionStatus, Recall, TaskStatus
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import TaskFilter
from testkit.factories import Kit

ROUNDS = 30


async def a_record_of_running_work_shows_who_runs_it(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    assigned_at = kit.now
    kit.later()
    await kit.start(run)
    await kit.cancel(run.task)
    record = await kit.record(run.task)
    assert (record.status, record.recall) == (TaskStatus.PROCESSING, Recall.CANCEL)
    assert (record.node, record.execution) == (run.node.id, run.execution)
    assert (record.assigned_at, record.started_at, record.ended_at) == (assigned_at, kit.now, None)


async def a_record_of_a_failed_task_shows_why(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed("no such page")
    record = await kit.record(task)
    assert (record.status, record.reason, record.retries) == (TaskStatus.FAILED, "no such page", 0)
    assert record.node is not None
    assert record.execution is not None


async def records_of_unknown_tasks_are_left_out(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    assert list(await kit.second.load_tasks([12_345, task])) == [task]
    assert await kit.second.load_tasks([]) == {}
    assert await kit.second.live_tasks([12_345]) == {}


async def records_of_five_thousand_tasks_come_at_once(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(5_000)
    assert set(await kit.second.load_tasks(tasks)) == set(tasks)
    assert set(await kit.second.live_tasks(tasks)) == set(tasks)


async def a_running_execution_is_listed_after_those_that_ended(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node)
    await kit.finish(run, End.PROCESS_LOST)
    (again,) = await kit.assign([run.task], node)
    ended, running = await kit.second.task_executions(run.task)
    assert (ended.id, ended.status) == (run.execution, ExecutionStatus.LOST)
    assert (running.id, running.status, running.ended_at, running.node) == (again.execution, None, None, node.id)


async def a_task_that_never_ran_has_no_executions(store: Store, kit: Kit) -> None:
    assert await kit.second.task_executions(await kit.submit_one()) == []


async def an_execution_that_ends_while_it_is_looked_for_is_shown_once(store: Store, kit: Kit) -> None:
    node = await kit.node()
    for run in await kit.run(node, ROUNDS):
        looks = asyncio.gather(*(kit.second.task_executions(run.task) for _ in range(4)))
        await kit.complete(run)
        assert [[execution.id for execution in look] for look in await looks] == [[run.execution]] * 4


async def what_a_node_holds_is_listed_by_node(store: Store, kit: Kit) -> None:
    first, second, idle = await kit.node(), await kit.node(), await kit.node()
    runs = await kit.run(first, 2)
    (other,) = await kit.run(second)
    held = await kit.second.held_tasks([first.id, second.id, idle.id])
    assert {node: sorted(row.id for row in rows) for node, rows in held.items()} == {
        first.id: sorted(run.task for run in runs),
        second.id: [other.task],
        idle.id: [],
    }


async def tasks_are_listed_newest_first(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(3)
    assert await _listed(kit) == tasks[::-1]


async def tasks_are_filtered_by_every_field(store: Store, kit: Kit) -> None:
    lane = await kit.known_lane("books", queue="night", task_type="browser")
    plain = await kit.submit_one()
    other = await kit.submit_one(lane=lane, workflow="w-1", name="prices of may")
    assert await _listed(kit, project="books") == [other]
    assert await _listed(kit, project="shop") == [plain]
    assert await _listed(kit, workflow="w-1") == [other]
    assert await _listed(kit, task_type="browser") == [other]
    assert await _listed(kit, queue="night") == [other]
    assert await _listed(kit, name_prefix="prices") == [other]
    assert await _listed(kit, project="books", queue="default") == []


async def tasks_are_filtered_by_status(store: Store, kit: Kit) -> None:
    node = await kit.node()
    pending = await kit.submit_one()
    waiting = await kit.submit_one(due_at=kit.now + 1)
    assigned, completed, late = await kit.run(node, 3, retry=RetryPolicy(0))
    cancelled = await kit.submit_one()
    await kit.complete(completed)
    await kit.finish(late, End.TIMED_OUT)
    await kit.cancel(cancelled)
    expected = {
        TaskStatus.PENDING: pending,
        TaskStatus.WAITING: waiting,
        TaskStatus.ASSIGNED: assigned.task,
        TaskStatus.COMPLETED: completed.task,
        TaskStatus.TIMEOUT: late.task,
        TaskStatus.CANCELLED: cancelled,
    }
    for status, task in expected.items():
        assert await _listed(kit, statuses=(status,)) == [task]
    assert await _listed(kit, statuses=(TaskStatus.COMPLETED, TaskStatus.CANCELLED)) == [cancelled, completed.task]
    assert await _listed(kit, statuses=(TaskStatus.WAITING, TaskStatus.PENDING)) == [waiting, pending]
    assert await _listed(kit, statuses=(TaskStatus.PENDING, TaskStatus.CANCELLED)) == [cancelled, pending]
    assert await _listed(kit, statuses=(TaskStatus.FAILED,)) == []


async def tasks_are_filtered_by_the_node_that_runs_or_ran_them(store: Store, kit: Kit) -> None:
    node = await kit.node()
    running, done = await kit.run(node, 2)
    await kit.complete(done)
    await kit.run_one(await kit.node())
    assert await _listed(kit, node=node.id) == [done.task, running.task]
    assert await _listed(kit, node=node.id, statuses=(TaskStatus.ASSIGNED,)) == [running.task]


async def a_prefix_means_just_these_characters(store: Store, kit: Kit) -> None:
    names = ["a_b", "axb", "a%b", "A_b", "x a_b", "ä_b"]
    tasks = {name: await kit.submit_one(name=name) for name in names}
    assert await _listed(kit, name_prefix="a_") == [tasks["a_b"]]
    assert await _listed(kit, name_prefix="a%") == [tasks["a%b"]]
    assert await _listed(kit, name_prefix="A") == [tasks["A_b"]]
    assert await _listed(kit, name_prefix="ä") == [tasks["ä_b"]]


async def pages_have_neither_gaps_nor_doubles_while_tasks_finish(store: Store, kit: Kit) -> None:
    node = await kit.node()
    runs = await kit.run(node, 40)
    paged: list[TaskId] = []
    while page := await kit.second.list_tasks(TaskFilter(), 7, paged[-1] if paged else None):
        paged += [record.id for record in page]
        await kit.complete(*kit.rng.sample(runs, 5))
        await kit.submit(3)
    assert paged == [run.task for run in reversed(runs)]


async def a_task_that_moves_while_it_is_listed_is_listed_once(store: Store, kit: Kit) -> None:
    node = await kit.node()
    for run in await kit.run(node, ROUNDS):
        lists = asyncio.gather(*(_listed(kit, project="shop", node=node.id) for _ in range(3)))
        await kit.complete(run)
        assert all(len(listed) == ROUNDS for listed in await lists)


async def a_retried_task_keeps_its_place_in_the_list(store: Store, kit: Kit) -> None:
    first, second = await kit.ended_failed(), await kit.submit_one()
    await store.reopen_tasks([first], kit.later())
    assert await _listed(kit) == [second, first]


async def _listed(kit: Kit, **fields: Any) -> list[TaskId]:
    return [record.id for record in await kit.second.list_tasks(TaskFilter(**fields), 100)]
