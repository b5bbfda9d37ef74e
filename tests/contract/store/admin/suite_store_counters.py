"""Counters equal the rows they count, at any moment."""

import asyncio

from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from testkit.factories import Kit


async def totals_are_exact_without_any_folding(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(5)
    await kit.submit(2, due_at=kit.now + 1)
    await kit.cancel(tasks[0])
    runs = await kit.assign(tasks[1:4], await kit.node())
    await kit.start(runs[0])
    await kit.complete(runs[1])
    assert await kit.second.task_totals() == {
        TaskStatus.PENDING: 1,
        TaskStatus.WAITING: 2,
        TaskStatus.ASSIGNED: 1,
        TaskStatus.PROCESSING: 1,
        TaskStatus.COMPLETED: 1,
        TaskStatus.CANCELLED: 1,
    }
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def totals_are_empty_at_first(store: Store, kit: Kit) -> None:
    assert await kit.second.task_totals() == {}
    assert await kit.second.count_rows() == {}


async def folding_changes_no_total(store: Store, kit: Kit) -> None:
    await kit.cancel(*(await kit.submit(5))[:2])
    before, term = await kit.second.task_totals(), await kit.term()
    assert await store.fold_counters(term) > 0
    assert await kit.second.task_totals() == before
    assert (await kit.dump())["figure_delta"] == []
    assert await store.fold_counters(term) == 0


async def folding_adds_to_what_was_folded_before(store: Store, kit: Kit) -> None:
    term = await kit.term()
    for _ in range(3):
        await kit.submit(2)
        await store.fold_counters(term)
    assert await kit.second.task_totals() == {TaskStatus.PENDING: 6}


async def projects_are_counted_apart(store: Store, kit: Kit) -> None:
    books = await kit.known_lane("books")
    await kit.submit(3)
    await kit.cancel(*await kit.submit(2, lane=books))
    await store.fold_counters(await kit.term())
    await kit.submit(1, lane=books)
    expected = {TaskStatus.CANCELLED: 2, TaskStatus.PENDING: 1}
    assert await kit.second.task_totals("books") == await kit.second.count_rows("books") == expected
    assert await kit.second.task_totals("shop") == await kit.second.count_rows("shop") == {TaskStatus.PENDING: 3}
    assert await kit.second.task_totals("nobody") == await kit.second.count_rows("nobody") == {}


async def a_task_refused_is_not_counted(store: Store, kit: Kit) -> None:
    await kit.add([kit.new_task(parents=[1])])
    assert await kit.second.task_totals() == {}


async def totals_are_exact_while_many_write_and_the_counters_are_folded(store: Store, kit: Kit) -> None:
    term, node = await kit.term(), await kit.node()
    seen: list[int] = []

    async def fold() -> None:
        for _ in range(20):
            await store.fold_counters(term)
            seen.append(sum((await kit.second.task_totals()).values()))

    async def work() -> None:
        for _ in range(5):
            await kit.complete(*await kit.assign(await kit.submit(3), node))

    await asyncio.gather(fold(), *(work() for _ in range(4)))
    assert await kit.second.task_totals() == await kit.second.count_rows() == {TaskStatus.COMPLETED: 60}
    assert seen == sorted(seen)


async def two_that_fold_at_once_count_nothing_twice(store: Store, kit: Kit) -> None:
    term = await kit.term()
    for _ in range(10):
        await kit.submit(2)
        await asyncio.gather(store.fold_counters(term), kit.second.fold_counters(term))
    assert await kit.second.task_totals() == {TaskStatus.PENDING: 20}


async def sound_counters_have_no_drift_folded_or_not(store: Store, kit: Kit) -> None:
    await kit.ended_failed()
    await kit.submit(3)
    assert await store.find_drift() == {}
    await store.fold_counters(await kit.term())
    await kit.ended_completed()
    assert await store.find_drift() == {}


async def wrong_counters_are_found_and_corrected_while_others_write(store: Store, kit: Kit) -> None:
    await kit.submit(3)
    await store.fold_counters(await kit.term())
    await kit.second.engine.write(lambda tx: tx.execute("UPDATE lane_counter SET n = n + 5"))
    ((lane, counts),) = (await store.find_drift()).items()
    assert counts == {TaskStatus.PENDING: -5}
    drift = await store.find_drift()
    await kit.submit(2)
    await store.correct_counters(drift, kit.now)
    assert await store.find_drift() == {}
    assert await store.lane_totals() == {lane: {TaskStatus.PENDING: 5}}
    await store.fold_counters(await kit.term())
    assert await store.lane_totals() == await store.count_lane_rows() == {lane: {TaskStatus.PENDING: 5}}
    await store.correct_counters({}, kit.now)
    assert await store.find_drift() == {}
