"""Parking: the slot is free, nothing is counted, and the row says for what and until when for as long as it lasts."""

from crawlfleet.model.execution import ParkCause
from crawlfleet.model.host import Backoff, Host
from crawlfleet.model.instants import to_text
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import ExecutionStatus, TaskStatus
from crawlfleet.model.task import ParkedTask
from crawlfleet.ports.host_store import GrantChange
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import Kit

HOST = "a.example"
BACKOFF = ParkCause.HOST_BACKOFF


async def a_parked_task_frees_its_slot_and_says_why(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node)
    await kit.start(run)
    applied = await kit.park(run, 30_000, BACKOFF, HOST)
    assert (applied.after, applied.freed, applied.ready) == (
        {run.task: TaskStatus.WAITING},
        [(node.id, run.execution)],
        {},
    )
    row = await kit.live(run.task)
    assert (row.status, row.node, row.retries, row.losses) == (TaskStatus.WAITING, 0, 0, 0)
    assert row.due_at is not None
    assert row.due_at >= kit.now + 30_000
    assert await kit.second.parked_tasks([run.task, 1]) == {
        run.task: ParkedTask(BACKOFF, HOST, kit.now + 30_000, 1, "not now")
    }
    (ended,) = await kit.second.task_executions(run.task)
    assert (ended.status, ended.failure) == (ExecutionStatus.PARKED, None)
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def the_event_of_parking_names_the_cause(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.park(run, 30_000, ParkCause.DAILY_QUOTA, "pages")
    (event,) = [event for event in await kit.events() if event.kind == "task.parked"]
    told = {name: event.data[name] for name in ("task", "execution", "cause", "subject", "until", "times", "reason")}
    assert told == {
        "task": run.task,
        "execution": run.execution,
        "cause": "daily_quota",
        "subject": "pages",
        "until": to_text(kit.now + 30_000),
        "times": 1,
        "reason": "not now",
    }


async def a_parked_task_is_ready_again_when_its_time_has_come(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.park(run, 30_000, BACKOFF, HOST)
    kit.later(29_999)
    assert await store.due_tasks(kit.now, 10) == []
    kit.later(5_000)
    assert await store.due_tasks(kit.now, 10) == [run.task]
    applied = await store.change_tasks([run.task], task_state_machine.release_due(kit.now), kit.now)
    assert applied.ready == {kit.lane.id: [run.task]}
    assert await kit.second.parked_tasks([run.task]) == {}
    # It did nothing wrong where it was.
    assert await store.failed_nodes([run.task]) == {}


async def how_often_a_task_was_parked_is_counted_by_round(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node)
    for times in (1, 2, 3):
        await kit.park(run, 1_000, BACKOFF, HOST)
        assert (await kit.second.parked_tasks([run.task]))[run.task].times == times
        kit.later(10_000)
        await store.change_tasks([run.task], task_state_machine.release_due(kit.now), kit.now)
        (run,) = await kit.assign([run.task], node)
    assert await store.parked_times([run.task, 1]) == {run.task: 3}
    await kit.fail(run)
    await store.reopen_tasks([run.task], kit.now)
    assert await store.parked_times([run.task]) == {}


async def nobody_is_parked_by_a_stale_execution(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node)
    await kit.end(node)
    async with kit.unchanged():
        applied = await kit.park(run, 30_000, BACKOFF, HOST)
    assert applied.refused[run.task].code is Code.STALE_EXECUTION


async def a_parked_task_is_cancelled_at_once(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), group=await kit.group())
    await kit.park(run, 30_000, BACKOFF, HOST)
    assert (await kit.cancel(run.task)).after == {run.task: TaskStatus.CANCELLED}
    assert await kit.second.parked_tasks([run.task]) == {}
    assert await store.due_tasks(kit.now + 10**9, 10) == []


async def a_child_waits_for_a_parent_that_is_parked(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node)
    child = await kit.submit_one(parents=[run.task])
    await kit.park(run, 1_000, BACKOFF, HOST)
    assert await store.awaited_parents(child) == {run.task: TaskStatus.WAITING}
    kit.later(10_000)
    await store.change_tasks([run.task], task_state_machine.release_due(kit.now), kit.now)
    (again,) = await kit.assign([run.task], node)
    await kit.complete(again)
    assert await kit.status(child) is TaskStatus.PENDING


async def those_parked_for_one_thing_are_found_by_it(store: Store, kit: Kit) -> None:
    late, soon, other, quota = await kit.run(await kit.node(), 4)
    await kit.park(late, 90_000, BACKOFF, HOST)
    await kit.park(soon, 30_000, BACKOFF, HOST)
    await kit.park(other, 30_000, BACKOFF, "b.example")
    await kit.park(quota, 30_000, ParkCause.DAILY_QUOTA, HOST)
    assert await store.parked_for(BACKOFF, HOST, 10) == [soon.task, late.task]
    assert await store.parked_for(BACKOFF, HOST, 1) == [soon.task]
    assert await store.parked_for(ParkCause.DAILY_QUOTA, HOST, 10) == [quota.task]


async def what_waits_for_a_host_that_is_back_before_its_time_is_found(store: Store, kit: Kit) -> None:
    runs = await kit.run(await kit.node(), 5)
    away, back, unheard, later, quota = runs
    for run, host in zip(runs[:3], ("away.example", "back.example", "new.example"), strict=True):
        await kit.park(run, 60_000, BACKOFF, host)
    await kit.park(later, 60_000)
    await kit.park(quota, 60_000, ParkCause.DAILY_QUOTA, "pages")
    await _backoffs(kit, {"away.example": kit.now + 60_000, "back.example": kit.now + 60_000})
    # A node may know of a refusal a moment before the leader does.
    assert await store.parked_in_vain(kit.now + 1_000, 10) == []
    await _backoffs(kit, {"back.example": 0})
    kit.later(6_000)
    found = await store.parked_in_vain(kit.now, 10)
    assert sorted(found) == sorted([back.task, unheard.task])
    assert len(await store.parked_in_vain(kit.now, 1)) == 1
    applied = await store.change_tasks(found, task_state_machine.unpark_task, kit.now, await kit.term())
    assert sorted(applied.ready[kit.lane.id]) == sorted(found)
    assert await store.parked_in_vain(kit.now, 10) == []
    assert list(await kit.second.parked_tasks([run.task for run in runs])) == [away.task, later.task, quota.task]


async def what_comes_back_by_itself_in_a_moment_is_not_hurried(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.park(run, 60_000, BACKOFF, HOST)
    kit.later(59_500)
    assert await store.parked_in_vain(kit.now, 10) == []


async def _backoffs(kit: Kit, until: dict[str, int]) -> None:
    hosts = [Host(name, backoff=Backoff(1, at, at, "answered 429")) for name, at in until.items()]
    await kit.store.put_grants(GrantChange(hosts=hosts), await kit.term(), kit.now)
