"""A task stays in its group, whatever becomes of it."""

from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import Kit


async def a_task_is_in_no_group_unless_it_says_so(store: Store, kit: Kit) -> None:
    plain, waiting = await kit.submit_one(), await kit.submit_one(due_at=kit.now + 1)
    for task in (plain, waiting):
        assert (await kit.live(task)).group is None
        assert (await kit.record(task)).group is None
    assert (await kit.record(await kit.ended_completed())).group is None


async def members_and_others_are_added_together(store: Store, kit: Kit) -> None:
    one, other = await kit.group(), await kit.group()
    groups = [None, one, other, None, one]
    answer = await kit.add(kit.new_task(group=group) for group in groups)
    tasks = [item.id for item in answer.items]  # type: ignore[union-attr]
    live, records = await kit.second.live_tasks(tasks), await kit.second.load_tasks(tasks)
    assert [live[task].group for task in tasks] == groups
    assert [records[task].group for task in tasks] == groups


async def a_member_stays_one_however_it_begins(store: Store, kit: Kit) -> None:
    group = await kit.group()
    failed, parent = await kit.ended_failed(), await kit.submit_one()
    pending = await kit.submit_one(group=group)
    later = await kit.submit_one(group=group, due_at=kit.now + 1)
    waiting = await kit.submit_one(group=group, parents=[parent])
    cancelled = await kit.submit_one(group=group, parents=[failed])
    for task, status in (
        (pending, TaskStatus.PENDING),
        (later, TaskStatus.WAITING),
        (waiting, TaskStatus.WAITING),
        (cancelled, TaskStatus.CANCELLED),
    ):
        record = await kit.record(task)
        assert (record.status, record.group) == (status, group)
    await kit.cancel(parent)
    for task in (waiting, cancelled):
        assert await _group_when_reopened(store, kit, task) == group


async def a_member_stays_one_while_it_runs(store: Store, kit: Kit) -> None:
    group = await kit.group()
    run = await kit.run_one(await kit.node(), group=group)
    assert (await kit.live(run.task)).group == group
    await kit.start(run)
    assert (await kit.live(run.task)).group == group
    await kit.fail(run, error=ErrorClass.NETWORK)
    assert (await kit.live(run.task)).group == group
    await store.change_tasks([run.task], task_state_machine.release_due(kit.later(3_600_000)), kit.now)
    assert (await kit.live(run.task)).group == group


async def a_member_stays_one_however_it_ends(store: Store, kit: Kit) -> None:
    group = await kit.group()
    node = await kit.node()
    completed, failed, late = await kit.run(node, 3, group=group, retry=RetryPolicy(0))
    other = await kit.run_one(node)
    cancelled = await kit.submit_one(group=group)
    await kit.complete(completed, other)
    await kit.fail(failed)
    await kit.finish(late, End.TIMED_OUT)
    await kit.cancel(cancelled)
    for task in (completed.task, failed.task, late.task, cancelled):
        record = await kit.record(task)
        assert (record.status.is_final, record.group) == (True, group)
        assert await _group_when_reopened(store, kit, task) == group
    assert await _group_when_reopened(store, kit, other.task) is None


async def _group_when_reopened(store: Store, kit: Kit, task: int) -> int | None:
    await store.reopen_tasks([task], kit.now)
    return (await kit.live(task)).group
