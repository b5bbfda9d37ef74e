"""Groups: made whole or not at all, joined while open, counted exactly, finished once each time."""

import asyncio

from crawlfleet.model.execution import End
from crawlfleet.model.group import GroupCounts, GroupKind
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.composite_store import Member
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted, Claim, NewGroup, Submission, SubmissionAnswer, TaskFilter
from testkit.factories import Kit, accepted, refused

DAY_MS = 86_400_000
ROUNDS = 15


async def a_group_is_made_with_its_members(store: Store, kit: Kit) -> None:
    new = NewGroup(kit.ids.new_id(), "shop", "spring", GroupKind.SHARDS, True, b'{"shards": 3}')
    items = [kit.new_task(group=new.id) for _ in range(3)]
    (answer,) = (await store.add_tasks([Submission(items, group=new)], kit.now)).answers
    assert answer.group == new.id
    assert [accepted(item).id for item in answer.items] == [item.id for item in items]
    group = (await kit.second.load_groups([new.id]))[new.id]
    assert (group.project, group.name, group.kind, group.is_closed) == ("shop", "spring", GroupKind.SHARDS, True)
    assert (group.created_at, group.finished_at, group.finishes, group.spec) == (kit.now, None, 0, b'{"shards": 3}')
    assert await _counts(kit, new.id) == GroupCounts(open=3)
    (event,) = [event for event in await kit.events() if event.kind == "group.created"]
    assert event.data == {"group": new.id, "name": "spring", "kind": "shards"}


async def a_group_with_one_bad_task_is_not_made(store: Store, kit: Kit) -> None:
    new = NewGroup(kit.ids.new_id(), "shop")
    items = [kit.new_task(group=new.id), kit.new_task(group=new.id, parents=[12_345])]
    async with kit.unchanged():
        (answer,) = (await store.add_tasks([Submission(items, group=new)], kit.now)).answers
    assert answer.group is None
    assert [refused(item).code for item in answer.items] == [Code.BATCH_REFUSED, Code.UNKNOWN_DEPENDENCY]


async def a_group_may_begin_empty(store: Store, kit: Kit) -> None:
    group = await kit.group(name="later")
    assert (await kit.second.load_groups([group]))[group].name == "later"
    assert await _counts(kit, group) == GroupCounts()
    await _settle(kit)
    assert (await kit.second.load_groups([group]))[group].finished_at is None


async def the_same_key_makes_no_second_group(store: Store, kit: Kit) -> None:
    claim = Claim("shop", "key", b"body", kit.now + DAY_MS)
    answers: list[SubmissionAnswer] = []
    for _ in range(2):
        new = NewGroup(kit.ids.new_id(), "shop")
        items = [kit.new_task(group=new.id)]
        answers += (await store.add_tasks([Submission(items, claim=claim, group=new)], kit.now)).answers
    assert answers[0].group is not None
    assert (answers[1].group, answers[1].is_replay, answers[1].items) == (answers[0].group, True, answers[0].items)
    assert len(await kit.second.list_groups(10)) == 1


async def the_same_key_twice_at_once_makes_one_group(store: Store, kit: Kit) -> None:
    claim = Claim("shop", "key", b"body", kit.now + DAY_MS)
    news = [NewGroup(kit.ids.new_id(), "shop") for _ in range(2)]
    one, twin = (await store.add_tasks([Submission([], claim=claim, group=new) for new in news], kit.now)).answers
    assert (one.group, one.is_replay) == (news[0].id, False)
    assert (twin.group, twin.is_replay) == (news[0].id, True)
    assert (await store.stored_answer(claim, 0, kit.now)) == twin


async def only_an_open_group_of_the_same_project_is_joined(store: Store, kit: Kit) -> None:
    ours, theirs, closed = await kit.group(), await kit.group("books"), await kit.group()
    await store.close_group(closed)
    answer = await kit.add(kit.new_task(group=group) for group in (ours, 12_345, theirs, closed))
    assert accepted(answer.items[0]).status is TaskStatus.PENDING
    refusals = [refused(item) for item in answer.items[1:]]
    assert [refusal.code for refusal in refusals] == [Code.UNKNOWN_GROUP, Code.INVALID_INPUT, Code.GROUP_CLOSED]
    assert {refusal.field for refusal in refusals} == {"group_id"}
    assert [await _counts(kit, group) for group in (ours, theirs, closed)] == [
        GroupCounts(open=1),
        *[GroupCounts()] * 2,
    ]


async def counts_follow_members_through_their_lives(store: Store, kit: Kit) -> None:
    group, node = await kit.group(), await kit.node()
    completed, failed, late, lost = await kit.run(node, 4, group=group, retry=RetryPolicy(0))
    cancelled = await kit.submit_one(group=group)
    dead = await kit.ended_failed()
    await kit.submit_one(group=group, parents=[dead])
    assert await _counts(kit, group) == GroupCounts(open=5, cancelled=1)
    await kit.complete(completed)
    await kit.fail(failed)
    await kit.finish(late, End.TIMED_OUT)
    await kit.cancel(cancelled)
    await kit.finish(lost, End.RETURNED)
    assert await _counts(kit, group) == GroupCounts(1, 1, 1, 1, 2)
    assert (await _counts(kit, group)).total == 6
    await _settle(kit)
    assert await _counts(kit, group) == GroupCounts(1, 1, 1, 1, 2)
    await store.reopen_tasks([failed.task, completed.task], kit.now)
    assert await _counts(kit, group) == GroupCounts(3, 0, 0, 1, 2)
    await store.drop_tasks([late.task], kit.now)
    assert await _counts(kit, group) == GroupCounts(3, 0, 0, 0, 2) == await kit.second.count_members(group)


async def members_pruned_by_retention_are_counted_no_more(store: Store, kit: Kit) -> None:
    group, term = await kit.group(), await kit.term()
    await kit.ended_completed(group=group)
    await kit.submit_one(group=group)
    await store.prune_rows(term, kit.later(2 * DAY_MS), DAY_MS, DAY_MS, 100)
    assert await _counts(kit, group) == GroupCounts(open=1) == await kit.second.count_members(group)


async def a_group_is_finished_when_its_last_member_ends(store: Store, kit: Kit) -> None:
    group, node = await kit.group(), await kit.node()
    first, second = await kit.run(node, 2, group=group)
    await kit.complete(first)
    assert await _finishes(kit, group) == 0
    await kit.fail(second)
    kit.later()
    assert await _finishes(kit, group) == 1
    assert (await kit.second.load_groups([group]))[group].finished_at == kit.now
    assert await _finishes(kit, group) == 1
    (event,) = await _finish_events(kit)
    assert event == {"group": group, "total": 2, "completed": 1, "failed": 1, "timeout": 0, "cancelled": 0}


async def a_retry_opens_a_finished_group_and_its_end_is_told_again(store: Store, kit: Kit) -> None:
    group = await kit.group()
    task = await kit.ended_failed(group=group)
    assert await _finishes(kit, group) == 1
    await store.reopen_tasks([task], kit.now)
    assert (await kit.second.load_groups([group]))[group].finished_at is None
    # Nobody looks between its retry and its end.
    (run,) = await kit.assign([task], await kit.node())
    await kit.complete(run)
    assert await _finishes(kit, group) == 2
    assert [event["completed"] for event in await _finish_events(kit)] == [0, 1]


async def joining_opens_a_finished_group(store: Store, kit: Kit) -> None:
    group = await kit.group()
    await kit.ended_completed(group=group)
    assert await _finishes(kit, group) == 1
    await kit.cancel(await kit.submit_one(group=group))
    assert await _finishes(kit, group) == 2


async def dropping_its_members_does_not_finish_a_group_again(store: Store, kit: Kit) -> None:
    group = await kit.group()
    task = await kit.ended_completed(group=group)
    assert await _finishes(kit, group) == 1
    await store.drop_tasks([task], kit.now)
    assert await _finishes(kit, group) == 1


async def an_empty_group_is_finished_by_closing_it(store: Store, kit: Kit) -> None:
    group = await kit.group()
    assert await store.close_group(group)
    assert await _finishes(kit, group) == 1
    assert not await store.close_group(12_345)


async def nobody_joins_a_group_once_it_is_closed(store: Store, kit: Kit) -> None:
    for _ in range(ROUNDS):
        group = await kit.group()

        async def close(group: GroupId = group) -> list[Member]:
            await kit.second.close_group(group)
            return await kit.second.list_members(group, 0, 100)

        adding = asyncio.gather(*(kit.add([kit.new_task(group=group)]) for _ in range(8)))
        answers, joined = await asyncio.gather(adding, close())
        taken = [item.id for answer in answers for item in answer.items if isinstance(item, Accepted)]
        assert [member.task for member in joined] == sorted(taken)


async def a_retry_that_races_with_the_leader_never_leaves_an_open_group_finished(store: Store, kit: Kit) -> None:
    term = await kit.term()
    for _ in range(ROUNDS):
        group = await kit.group()
        task = await kit.submit_one(group=group)
        await kit.cancel(task)
        await asyncio.gather(store.settle_groups(term, kit.now), kit.second.reopen_tasks([task], kit.now))
        assert (await kit.second.load_groups([group]))[group].finished_at is None
        before = (await kit.second.load_groups([group]))[group].finishes
        await kit.cancel(task)
        assert await _finishes(kit, group) == before + 1


async def groups_are_listed_newest_first(store: Store, kit: Kit) -> None:
    ours = [await kit.group() for _ in range(3)]
    theirs = await kit.group("books", kind=GroupKind.SHARDS)
    assert [group.id for group in await kit.second.list_groups(2)] == [theirs, ours[2]]
    assert [group.id for group in await kit.second.list_groups(2, ours[2])] == [ours[1], ours[0]]
    assert [group.id for group in await kit.second.list_groups(9, project="books")] == [theirs]
    assert [group.id for group in await kit.second.list_groups(9, kind=GroupKind.SHARDS)] == [theirs]


async def members_come_in_order_with_what_completed_them(store: Store, kit: Kit) -> None:
    group, node = await kit.group(), await kit.node()
    await kit.submit(3)
    runs = await kit.run(node, 3, group=group, retry=RetryPolicy(0))
    done = kit.outcome(runs[2])._replace(result=b'{"n": 2}', metrics=b'{"items": 1}')
    await store.complete_executions([done], kit.now)
    await kit.fail(runs[0])
    members = await kit.second.list_members(group, 0, 10)
    assert [member.task for member in members] == [run.task for run in runs]
    assert [member.status for member in members] == [TaskStatus.FAILED, TaskStatus.ASSIGNED, TaskStatus.COMPLETED]
    assert [member.execution for member in members] == [None, None, runs[2].execution]
    assert (members[2].result, members[2].metrics) == (b'{"n": 2}', b'{"items": 1}')
    assert await kit.second.list_members(group, runs[1].task, 10) == members[2:]
    assert await kit.second.list_members(group, 0, 1) == members[:1]


async def members_are_walked_with_whether_they_are_open(store: Store, kit: Kit) -> None:
    group = await kit.group()
    tasks = await kit.submit(4, group=group)
    await kit.submit(2)
    await kit.cancel(tasks[0], tasks[2])
    assert await kit.second.walk_members(group, 0, 3) == [(tasks[0], False), (tasks[1], True), (tasks[2], False)]
    assert await kit.second.walk_members(group, tasks[2], 3) == [(tasks[3], True)]
    assert await kit.second.walk_members(group, tasks[3], 3) == []


async def members_that_failed_are_found_by_how_they_ended(store: Store, kit: Kit) -> None:
    group, node = await kit.group(), await kit.node()
    runs = await kit.run(node, 4, group=group, retry=RetryPolicy(0))
    await kit.finish(runs[0], End.TIMED_OUT)
    for run in runs[1:3]:
        await kit.fail(run, "no such page")
    await kit.complete(runs[3])
    await kit.ended_failed()
    failed = [run.task for run in runs[1:3]]
    both = [TaskStatus.FAILED, TaskStatus.TIMEOUT]
    assert await kit.second.ended_members(group, [TaskStatus.FAILED], 0, 10) == failed
    assert await kit.second.ended_members(group, both, 0, 10) == [runs[0].task, *failed]
    assert await kit.second.ended_members(group, both, 0, 2) == [runs[0].task, failed[0]]
    assert await kit.second.ended_members(group, both, failed[0], 10) == failed[1:]
    failures = await kit.second.member_failures(group, 2)
    assert [(one.task, one.status) for one in failures] == [
        (runs[0].task, TaskStatus.TIMEOUT),
        (failed[0], TaskStatus.FAILED),
    ]
    assert failures[1].message == "no such page"


async def tasks_are_listed_by_group(store: Store, kit: Kit) -> None:
    group = await kit.group()
    tasks = await kit.submit(5, group=group)
    await kit.submit(5)
    await kit.cancel(tasks[1])
    whole = TaskFilter(group=group)
    assert [record.id for record in await kit.second.list_tasks(whole, 10)] == tasks[::-1]
    page = await kit.second.find_tasks(whole, 2)
    assert ([record.id for record in page.tasks], page.before) == (tasks[:2:-1], tasks[3])
    cancelled = TaskFilter(group=group, statuses=(TaskStatus.CANCELLED,))
    assert [record.id for record in (await kit.second.find_tasks(cancelled, 9)).tasks] == [tasks[1]]
    pending = TaskFilter(group=group, statuses=(TaskStatus.PENDING,))
    assert [record.id for record in (await kit.second.find_tasks(pending, 2)).tasks] == [tasks[4], tasks[3]]


async def a_group_goes_when_its_members_are_gone(store: Store, kit: Kit) -> None:
    group = await kit.group()
    task = await kit.ended_failed(group=group)
    assert not await store.remove_group(group)
    await store.drop_tasks([task], kit.now)
    assert await store.remove_group(group)
    await kit.events()
    dump = await kit.dump()
    for name in ("task_group", "group_counter", "group_delta"):
        assert dump[name] == [], name


async def retention_takes_old_groups_after_their_members(store: Store, kit: Kit) -> None:
    term = await kit.term()
    old, unused, busy = await kit.group(), await kit.group(), await kit.group()
    await kit.ended_completed(group=old)
    await kit.submit_one(group=busy)
    await _settle(kit)
    await store.prune_rows(term, kit.later(2 * DAY_MS), DAY_MS, DAY_MS, 100)
    fresh = await kit.group()
    await store.prune_rows(term, kit.now, DAY_MS, DAY_MS, 100)
    assert {group.id for group in await kit.second.list_groups(10)} == {busy, fresh}
    assert await _counts(kit, busy) == GroupCounts(open=1)
    assert unused not in await kit.second.load_groups([unused])


async def counts_are_exact_while_many_write_and_the_leader_settles(store: Store, kit: Kit) -> None:
    group, node, term = await kit.group(), await kit.node(), await kit.term()

    async def live() -> None:
        for run in await kit.run(node, 5, group=group):
            await (kit.complete(run) if run.task % 2 else kit.fail(run))

    async def settle() -> None:
        for _ in range(10):
            await kit.second.settle_groups(term, kit.now)

    await asyncio.gather(live(), live(), settle(), live())
    assert await _counts(kit, group) == await kit.second.count_members(group)
    assert (await _counts(kit, group)).ended == 15


async def _counts(kit: Kit, group: GroupId) -> GroupCounts:
    return (await kit.second.group_counts([group]))[group]


async def _settle(kit: Kit) -> None:
    while await kit.store.settle_groups(await kit.term(), kit.now):
        pass


async def _finishes(kit: Kit, group: GroupId) -> int:
    """How often it was finished, once the leader has looked."""
    await _settle(kit)
    return (await kit.second.load_groups([group]))[group].finishes


async def _finish_events(kit: Kit) -> list[dict[str, TaskId]]:
    return [dict(event.data) for event in await kit.events() if event.kind == "group.finished"]
