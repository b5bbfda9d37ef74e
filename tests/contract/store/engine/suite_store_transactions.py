"""Transactions: whole or not at all, each for itself, whatever shares its commit."""

import asyncio

import pytest

from crawlfleet.errors import InvariantBroken, NotLeader
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Submission
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import Tx
from testkit.factories import Kit


class _Oops(Exception):
    pass


async def a_write_that_fails_half_way_leaves_nothing(store: Store, kit: Kit) -> None:
    async def work(tx: Tx) -> None:
        await _pause_everything(tx)
        raise _Oops

    async with kit.unchanged():
        with pytest.raises(_Oops):
            await kit.second.engine.write(work)


async def a_write_the_database_refuses_leaves_nothing(store: Store, kit: Kit) -> None:
    async def work(tx: Tx) -> None:
        await _pause_everything(tx)
        await tx.execute("INSERT INTO queue (name, is_paused, changed_at) VALUES ('default', 0, 0)")

    async with kit.unchanged():
        with pytest.raises(InvariantBroken):
            await kit.second.engine.write(work)


async def failing_writes_among_many_at_once_fail_alone(store: Store, kit: Kit) -> None:
    async def fail(tx: Tx) -> None:
        await _pause_everything(tx)
        raise _Oops

    tasks = [kit.new_task() for _ in range(40)]
    calls = [
        kit.second.add_tasks([Submission([task])], kit.now) if n % 4 else kit.second.engine.write(fail)
        for n, task in enumerate(tasks)
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, _Oops) for answer in answers] == [n % 4 == 0 for n in range(40)]
    assert await kit.second.task_totals() == await kit.second.count_rows() == {TaskStatus.PENDING: 30}
    assert await kit.second.paused_queues() == set()


async def writes_of_an_older_term_among_many_at_once_fail_alone(store: Store, kit: Kit) -> None:
    term = await kit.term()
    tasks = await kit.submit(40)
    calls = [
        store.change_tasks([task], task_state_machine.cancel_task("no"), kit.now, term if n % 4 else term - 1)
        for n, task in enumerate(tasks)
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, NotLeader) for answer in answers] == [n % 4 == 0 for n in range(40)]
    assert await kit.second.task_totals() == {TaskStatus.PENDING: 10, TaskStatus.CANCELLED: 30}
    assert {(await kit.status(task)).word for task in tasks[::4]} == {"pending"}


async def a_caller_that_gives_up_leaves_the_write_whole_or_undone(store: Store, kit: Kit) -> None:
    for _ in range(10):
        batch = [kit.new_task() for _ in range(5)]
        adding = asyncio.ensure_future(store.add_tasks([Submission(batch)], kit.now))
        await kit.second.last_event()
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
        await kit.submit_one()
        found = await kit.second.load_tasks([task.id for task in batch])
        assert len(found) in (0, 5)
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def a_thousand_writes_at_once_are_all_there(store: Store, kit: Kit) -> None:
    tasks = [kit.new_task() for _ in range(1_000)]
    await asyncio.gather(*(store.add_tasks([Submission([task])], kit.now) for task in tasks))
    assert await kit.second.task_totals() == {TaskStatus.PENDING: 1_000}


async def _pause_everything(tx: Tx) -> None:
    await tx.insert(schema.queue, ("name", "is_paused", "changed_at"), [("default", 1, 0), ("night", 1, 0)])
