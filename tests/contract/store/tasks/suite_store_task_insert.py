"""Adding tasks."""

import pytest

from crawlfleet.errors import InvariantBroken
from crawlfleet.model.ids import task_text
from crawlfleet.model.queue import Lane
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted, NewTask, Submission
from testkit.factories import Kit, accepted, refused

NOWHERE = 12_345
"""The id of no task."""


async def an_answered_task_is_there_for_others(store: Store, kit: Kit) -> None:
    task = kit.new_task(name="prices")
    answer = await kit.add([task])
    assert answer.items == [Accepted(task.id, TaskStatus.PENDING, kit.now, 5)]
    assert not answer.is_replay
    assert (await kit.second.load_tasks([task.id]))[task.id].name == "prices"


async def every_field_of_a_task_is_kept(store: Store, kit: Kit) -> None:
    lane = await kit.known_lane("books", queue="night", priority=9, task_type="browser")
    task = kit.new_task(
        lane=lane,
        workflow="w-1",
        name="Überpreis 本",
        timeout_s=77,
        parameters='{"q":"é\\n"}'.encode(),
        retry=RetryPolicy(7, 0.5, 9.0),
    )
    await kit.add([task])
    record = await kit.record(task.id)
    assert (record.project, record.workflow, record.name) == ("books", "w-1", "Überpreis 本")
    assert (record.task_type, record.queue, record.priority, record.lane) == ("browser", "night", 9, lane.id)
    assert (record.parameters, record.spec) == (task.parameters, task.spec)
    assert (record.created_at, record.timeout_s, record.round) == (kit.now, 77, 1)
    assert (record.retries, record.losses, record.deaths, record.waits) == (0, 0, 0, 0)
    assert (record.node, record.execution, record.ended_at, record.reason, record.due_at) == (None,) * 5


async def a_task_of_a_later_time_waits(store: Store, kit: Kit) -> None:
    task = kit.new_task(due_at=kit.now + 1)
    answer = await kit.add([task])
    assert accepted(answer.items[0]).status is TaskStatus.WAITING
    assert (await kit.record(task.id)).due_at == kit.now + 1


async def a_task_whose_time_has_come_is_pending_at_once(store: Store, kit: Kit) -> None:
    answer = await kit.add([kit.new_task(due_at=kit.now), kit.new_task(due_at=kit.now - 1_000)])
    assert [accepted(item).status for item in answer.items] == [TaskStatus.PENDING] * 2


async def only_what_is_pending_is_hinted_as_ready(store: Store, kit: Kit) -> None:
    other = await kit.known_lane(priority=9)
    pending, urgent = kit.new_task(), kit.new_task(lane=other)
    later, child = kit.new_task(due_at=kit.now + 1), kit.new_task(parents=[await kit.submit_one()])
    added = await store.add_tasks([Submission([pending, later, child]), Submission([urgent])], kit.now)
    assert added.ready == {kit.lane.id: [pending.id], other.id: [urgent.id]}


async def parameters_of_a_megabyte_come_back_unchanged(store: Store, kit: Kit) -> None:
    parameters = b'{"text":"' + b"x" * (1 << 20) + b'"}'
    task = await kit.submit_one(parameters=parameters)
    assert (await kit.second.load_deliveries([task]))[task].parameters == parameters


async def refusals_found_before_the_store_keep_their_place(store: Store, kit: Kit) -> None:
    bad = Refusal(Code.INVALID_INPUT, "not a number", "parameters.depth")
    first, last = kit.new_task(), kit.new_task()
    answer = await kit.add([first, bad, last])
    assert [accepted(answer.items[0]).id, answer.items[1], accepted(answer.items[2]).id] == [first.id, bad, last.id]


async def a_submission_of_refusals_alone_changes_nothing(store: Store, kit: Kit) -> None:
    bad = Refusal(Code.TOO_LARGE, "too large", "parameters")
    async with kit.unchanged():
        assert (await kit.add([bad, bad])).items == [bad, bad]


async def adding_nothing_changes_nothing(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        assert (await store.add_tasks([], kit.now)).answers == []
        assert (await store.add_tasks([Submission([])], kit.now)).answers[0].items == []


async def one_bad_row_among_a_thousand_is_refused_alone(store: Store, kit: Kit) -> None:
    batch = _with_one_bad_row(kit)
    answer = await kit.add(batch)
    assert refused(answer.items[617]).code is Code.UNKNOWN_DEPENDENCY
    good = {task.id for task in batch} - {batch[617].id}
    assert set(await kit.second.load_tasks([task.id for task in batch])) == good
    assert await kit.second.count_rows() == {TaskStatus.PENDING: 999}


async def one_bad_row_refuses_an_atomic_thousand(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        answer = await kit.add(_with_one_bad_row(kit), is_atomic=True)
    codes = [refused(item).code for item in answer.items]
    assert codes.pop(617) is Code.UNKNOWN_DEPENDENCY
    assert codes == [Code.BATCH_REFUSED] * 999


async def a_refusal_found_before_the_store_refuses_an_atomic_batch(store: Store, kit: Kit) -> None:
    bad = Refusal(Code.UNKNOWN_TYPE, "no such type", "task_type")
    async with kit.unchanged():
        answer = await kit.add([kit.new_task(), bad], is_atomic=True)
    assert [refused(item).code for item in answer.items] == [Code.BATCH_REFUSED, Code.UNKNOWN_TYPE]


async def an_atomic_thousand_without_a_bad_row_is_added_whole(store: Store, kit: Kit) -> None:
    answer = await kit.add([kit.new_task() for _ in range(1_000)], is_atomic=True)
    assert {accepted(item).status for item in answer.items} == {TaskStatus.PENDING}
    assert await kit.second.count_rows() == {TaskStatus.PENDING: 1_000}


async def the_refused_batch_of_one_caller_does_not_harm_another(store: Store, kit: Kit) -> None:
    before, after = kit.new_task(), kit.new_task()
    bad = Submission([kit.new_task(), kit.new_task(parents=[NOWHERE])], is_atomic=True)
    added = await store.add_tasks([Submission([before]), bad, Submission([after])], kit.now)
    assert [accepted(added.answers[n].items[0]).id for n in (0, 2)] == [before.id, after.id]
    assert await kit.second.count_rows() == {TaskStatus.PENDING: 2}


async def an_unknown_parent_is_named_with_its_place(store: Store, kit: Kit) -> None:
    known = await kit.submit_one()
    async with kit.unchanged():
        answer = await kit.add([kit.new_task(parents=[known, NOWHERE])])
    refusal = refused(answer.items[0])
    assert (refusal.code, refusal.field) == (Code.UNKNOWN_DEPENDENCY, "depends_on[1]")
    assert task_text(NOWHERE) in refusal.detail


async def a_task_in_a_lane_nobody_made_known_is_our_own_fault(store: Store, kit: Kit) -> None:
    unknown = Lane.with_id("never", "made", 5, Requirement("known"))
    async with kit.unchanged():
        with pytest.raises(InvariantBroken):
            await kit.add([kit.new_task(), kit.new_task(lane=unknown)])


async def an_id_used_twice_is_our_own_fault_and_overwrites_nothing(store: Store, kit: Kit) -> None:
    task = kit.new_task(name="first")
    await kit.add([task])
    async with kit.unchanged():
        with pytest.raises(InvariantBroken):
            await kit.add([kit.new_task(), task._replace(name="second")])


async def a_lane_can_be_made_known_again(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        await kit.second.ensure_lanes([kit.lane])
        await store.ensure_lanes([kit.lane])


async def a_lane_made_known_by_another_master_is_found(store: Store, kit: Kit) -> None:
    lane = Lane.with_id(
        "default", "books", 3, Requirement("echo", capabilities=(("gpu", 1.0), ("langs", ("de", "en"))))
    )
    await kit.second.ensure_lanes([lane])
    assert await store.load_lanes([lane.id, kit.lane.id]) == [lane, kit.lane]
    answer = await kit.add([kit.new_task(lane=lane)])
    assert accepted(answer.items[0]).status is TaskStatus.PENDING


def _with_one_bad_row(kit: Kit) -> list[NewTask]:
    batch = [kit.new_task() for _ in range(1_000)]
    batch[617] = batch[617]._replace(parents=(NOWHERE,))
    return batch
