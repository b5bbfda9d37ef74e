"""Rounds and dead letters: what a person does with tasks that ended."""

from crawlfleet.model.execution import End, Failure
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import Kit

PENDING = TaskStatus.PENDING


async def a_persons_retry_opens_the_next_round(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed()
    applied = await store.reopen_tasks([task], kit.later())
    assert (applied.after, applied.ready) == ({task: PENDING}, {kit.lane.id: [task]})
    record = await kit.record(task)
    assert (record.status, record.round, record.retries, record.losses, record.deaths) == (PENDING, 2, 0, 0, 0)
    assert (record.node, record.execution, record.ended_at, record.reason) == (None, None, None, None)


async def every_final_state_can_be_retried(store: Store, kit: Kit) -> None:
    node = await kit.node()
    completed, failed, late = await kit.run(node, 3, retry=RetryPolicy(0))
    cancelled = await kit.submit_one()
    await kit.complete(completed)
    await kit.fail(failed)
    await kit.finish(late, End.TIMED_OUT)
    await kit.cancel(cancelled)
    tasks = [completed.task, failed.task, late.task, cancelled]
    assert (await store.reopen_tasks(tasks, kit.now)).after == dict.fromkeys(tasks, PENDING)
    assert await kit.second.task_totals() == {PENDING: 4}


async def executions_keep_the_round_they_belong_to(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed()
    await store.reopen_tasks([task], kit.now)
    (run,) = await kit.assign([task], await kit.node())
    await kit.complete(run)
    assert [execution.round for execution in await kit.second.task_executions(task)] == [1, 2]
    record = await kit.record(task)
    assert (record.round, record.execution) == (2, run.execution)


async def an_outcome_of_the_round_before_is_stale(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.fail(run)
    await store.reopen_tasks([run.task], kit.now)
    async with kit.unchanged():
        applied = await kit.complete(run)
    assert applied.refused[run.task].code is Code.STALE_EXECUTION


async def retries_are_fresh_in_the_next_round(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node, retry=RetryPolicy(1, 0.0, 0.0))
    await kit.fail(run, error=ErrorClass.NETWORK)
    await store.change_tasks([run.task], task_state_machine.release_due(kit.later()), kit.now)
    (run,) = await kit.assign([run.task], node)
    await kit.fail(run, error=ErrorClass.NETWORK)
    assert await kit.status(run.task) is TaskStatus.FAILED
    await store.reopen_tasks([run.task], kit.now)
    (run,) = await kit.assign([run.task], node)
    await kit.fail(run, error=ErrorClass.NETWORK)
    assert await kit.status(run.task) is TaskStatus.RETRYING


async def what_has_not_ended_is_not_retried(store: Store, kit: Kit) -> None:
    pending, final = await kit.submit_one(), await kit.ended_failed()
    applied = await store.reopen_tasks([pending, 12_345, final], kit.now)
    assert applied.after == {final: PENDING}
    assert {task: refusal.code for task, refusal in applied.refused.items()} == {
        pending: Code.NOT_FINAL,
        12_345: Code.UNKNOWN_TASK,
    }


async def a_refused_retry_changes_nothing(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    async with kit.unchanged():
        assert (await store.reopen_tasks([run.task, 12_345], kit.now)).after == {}
        assert (await store.reopen_tasks([], kit.now)).after == {}


async def a_task_named_twice_is_reopened_once(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed()
    applied = await store.reopen_tasks([task, task], kit.now)
    assert (applied.after, applied.refused) == ({task: PENDING}, {})
    assert (await kit.record(task)).round == 2
    assert await kit.second.task_totals() == {PENDING: 1}


async def a_task_that_failed_for_good_is_a_dead_letter(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed("no such page")
    (letter,) = await kit.second.dead_letters(10)
    assert (letter.task, letter.round, letter.project, letter.task_type) == (task, 1, "shop", "echo")
    assert letter.failure == Failure(ErrorClass.INPUT, "no such page")
    assert (letter.cause, letter.buried_at) == ("input: no such page", kit.now)


async def a_cancelled_task_is_no_dead_letter(store: Store, kit: Kit) -> None:
    await kit.cancel(await kit.submit_one())
    assert await kit.second.dead_letters(10) == []


async def dead_letters_are_grouped_by_cause(store: Store, kit: Kit) -> None:
    node = await kit.node()
    runs = await kit.run(node, 4)
    messages = ["page 17 of 0xbeef is gone", "page 4 of 0xcafe is gone", "no route to host", "page 9 of 0x1 is gone"]
    for run, message in zip(runs, messages, strict=True):
        kit.later()
        await kit.fail(run, message)
    gone, route = await kit.second.dead_letter_groups()
    assert (gone.cause, gone.count, gone.newest_at, gone.example) == (
        "input: page # of # is gone",
        3,
        kit.now,
        runs[3].task,
    )
    assert (route.cause, route.count) == ("input: no route to host", 1)
    letters = await kit.second.dead_letters(10, cause=gone.cause)
    assert [letter.task for letter in letters] == [runs[3].task, runs[1].task, runs[0].task]


async def poison_has_a_cause_of_its_own(store: Store, kit: Kit) -> None:
    node, task = await kit.node(), await kit.submit_one()
    for _ in range(3):
        (run,) = await kit.assign([task], node)
        await kit.finish(run, End.DIED_ALONE, Failure(ErrorClass.CRASH, "signal 11"))
        await store.change_tasks([task], task_state_machine.release_due(kit.later(3_600_000)), kit.now)
    (group,) = await kit.second.dead_letter_groups()
    assert group.cause == "poison: crash: signal #"
    assert "poison" in ((await kit.record(task)).reason or "")


async def dead_letters_are_paged_newest_first_and_kept_apart_by_project(store: Store, kit: Kit) -> None:
    books = await kit.known_lane("books")
    ours = [await kit.ended_failed() for _ in range(3)]
    theirs = await kit.ended_failed(lane=books)
    assert [letter.task for letter in await kit.second.dead_letters(2)] == [theirs, ours[2]]
    assert [letter.task for letter in await kit.second.dead_letters(2, before=ours[2])] == [ours[1], ours[0]]
    assert [letter.task for letter in await kit.second.dead_letters(10, project="books")] == [theirs]
    (group,) = await kit.second.dead_letter_groups("shop")
    assert group.count == 3


async def a_replayed_dead_letter_is_one_no_more(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed()
    await store.reopen_tasks([task], kit.now)
    assert await kit.second.dead_letters(10) == []
    (run,) = await kit.assign([task], await kit.node())
    await kit.fail(run, "again")
    (letter,) = await kit.second.dead_letters(10)
    assert (letter.round, letter.cause) == (2, "input: again")


async def a_dropped_task_is_gone_with_all_that_belongs_to_it(store: Store, kit: Kit) -> None:
    kept, task = await kit.ended_failed(), await kit.ended_failed()
    applied = await store.drop_tasks([task], kit.now)
    assert applied.after == {task: TaskStatus.FAILED}
    assert await kit.second.load_tasks([task]) == {}
    assert await kit.second.task_executions(task) == []
    assert [letter.task for letter in await kit.second.dead_letters(10)] == [kept]
    assert await kit.second.task_totals() == {TaskStatus.FAILED: 1}


async def nothing_of_a_dropped_task_is_left_in_any_table(store: Store, kit: Kit) -> None:
    parent = await kit.submit_one()
    task = await kit.submit_one(parents=[parent])
    await kit.cancel(task)
    await kit.events()
    await store.drop_tasks([task], kit.now)
    dump = await kit.dump()
    for name in ("task", "live", "done", "execution", "dead_letter", "dependency"):
        assert not [row for row in dump[name] if task in row], name


async def what_has_not_ended_is_not_dropped(store: Store, kit: Kit) -> None:
    run, final = await kit.run_one(await kit.node()), await kit.ended_failed()
    applied = await store.drop_tasks([run.task, 12_345, final], kit.now)
    assert applied.after == {final: TaskStatus.FAILED}
    assert {task: refusal.code for task, refusal in applied.refused.items()} == {
        run.task: Code.NOT_FINAL,
        12_345: Code.UNKNOWN_TASK,
    }


async def a_refused_drop_changes_nothing(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    async with kit.unchanged():
        assert (await store.drop_tasks([run.task, 12_345], kit.now)).after == {}
        assert (await store.drop_tasks([], kit.now)).after == {}
