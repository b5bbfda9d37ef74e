"""Lanes that no task stands in go after two sweeps; a lane that a task is put into is always there."""

import pytest

from crawlfleet.errors import InvariantBroken, StoreUnavailable
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.maintenance_store import LANE_FRESH_S, LANE_SWEEP_EVERY_S
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Submission
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from testkit.clock import FakeClock
from testkit.factories import Kit
from testkit.flow_kit import FlowKit
from tests.contract.store.composites.schedules_kit import MINUTE_MS, firings_due, made


async def a_lane_that_two_sweeps_found_unused_goes(store: Store, kit: Kit) -> None:
    used, unused = await kit.known_lane("used"), await kit.known_lane("unused")
    await kit.submit_one(lane=used)
    assert await _sweep(store, await kit.term(), 1) == 0
    assert await _marks(kit) == {used.id: 0, **dict.fromkeys((kit.lane.id, unused.id), await _mark(kit, unused))}
    assert await _sweep(store, await kit.term(), 2) == 2
    assert await _marks(kit) == {used.id: 0}


async def a_task_keeps_its_lane_in_every_status(store: Store, kit: Kit) -> None:
    node = await kit.node()
    lanes = [await kit.known_lane(f"project {number}") for number in range(7)]
    await kit.submit(2, lane=lanes[0])
    parent = await kit.submit_one(lane=lanes[1], due_at=kit.now + MINUTE_MS)
    await kit.submit_one(lane=lanes[2], parents=[parent])
    await kit.run_one(node, lane=lanes[3])
    await kit.ended_completed(lane=lanes[4])
    await kit.cancel(await kit.submit_one(lane=lanes[5]))
    await store.reopen_tasks([await kit.ended_completed(lane=lanes[6])], kit.now)
    for limit in (1, 2, 3, 100):
        assert await _lanes_of_tasks(store, limit) == {lane.id for lane in lanes}
    for sweep in (1, 2):
        await _sweep(store, await kit.term(), sweep)
    assert set(await _marks(kit)) == {lane.id for lane in lanes}


async def a_window_ends_where_every_table_was_looked_at(store: Store, kit: Kit) -> None:
    first, second, third, last = await kit.submit(4)
    await kit.cancel(first, third)
    assert (await store.lanes_of_tasks(0, 1)).last == first
    assert (await store.lanes_of_tasks(first, 1)).last == second
    assert (await store.lanes_of_tasks(0, 2)).last == third
    assert (await store.lanes_of_tasks(third, 2)).last == 0
    assert (await store.lanes_of_tasks(last, 1)) == (set(), 0)


async def lanes_are_listed_in_order(store: Store, kit: Kit) -> None:
    lanes = sorted([kit.lane.id, *[(await kit.known_lane(f"project {number}")).id for number in range(4)]])
    assert await store.lane_ids(-1, 3) == lanes[:3]
    assert await store.lane_ids(lanes[2], 3) == lanes[3:]


async def a_lane_that_is_marked_once_only_stays(store: Store, kit: Kit) -> None:
    for _ in range(3):
        assert await store.remove_unused_lanes(await kit.term(), 1, [kit.lane.id]) == 0
    assert set(await _marks(kit)) == {kit.lane.id}


async def marks_of_another_term_do_not_count(store: Store, kit: Kit) -> None:
    term = await kit.term()
    await store.remove_unused_lanes(term, 1, [kit.lane.id])
    newer = await store.campaign("another", await store.read_leader(), kit.now)
    assert newer is not None
    assert await store.remove_unused_lanes(newer, 2, [kit.lane.id]) == 0
    assert await store.remove_unused_lanes(newer, 3, [kit.lane.id]) == 1


async def a_mark_counts_until_it_is_cleared(store: Store, kit: Kit) -> None:
    """Also when the sweep after it found a task in the lane."""
    term = await kit.term()
    await store.remove_unused_lanes(term, 1, [kit.lane.id])
    await store.remove_unused_lanes(term, 2, [])
    assert await store.remove_unused_lanes(term, 3, [kit.lane.id]) == 1


async def ensuring_a_lane_clears_its_mark_and_writes_it_again(store: Store, kit: Kit) -> None:
    clock, (master,) = _masters(kit, 1)
    term = await kit.term()
    await store.remove_unused_lanes(term, 1, [kit.lane.id])
    await master.ensure_lanes([kit.lane])
    assert await _marks(kit) == {kit.lane.id: 0}
    await store.remove_unused_lanes(term, 2, [kit.lane.id])
    await store.remove_unused_lanes(term, 3, [kit.lane.id])
    clock.advance(LANE_FRESH_S)
    await master.ensure_lanes([kit.lane])
    assert await _marks(kit) == {kit.lane.id: 0}


async def a_lane_that_was_ensured_lately_is_not_asked_for_again(store: Store, kit: Kit) -> None:
    """Marks of a sweep that ends meanwhile do no harm: the next one comes long after."""
    clock, (master,) = _masters(kit, 1)
    await master.ensure_lanes([kit.lane])
    await store.remove_unused_lanes(await kit.term(), 1, [kit.lane.id])
    mark = await _mark(kit, kit.lane)
    clock.advance(LANE_FRESH_S / 2 - 1)
    await master.ensure_lanes([kit.lane])
    clock.advance(LANE_FRESH_S / 2)
    await master.add_tasks([Submission([kit.new_task()])], kit.now)
    assert await _mark(kit, kit.lane) == mark
    clock.advance(1)
    await master.add_tasks([Submission([kit.new_task()])], kit.now)
    assert await _mark(kit, kit.lane) == 0


async def a_lane_that_one_master_removes_and_another_remembers_comes_back(store: Store, kit: Kit) -> None:
    clock, (leader, other) = _masters(kit, 2)
    term, lane = await kit.term(), Lane.with_id("default", "rare", 5, Requirement("echo"))
    await other.ensure_lanes([lane])
    task = kit.new_task(lane=lane)
    for sweep in (1, 2):
        await _sweep(leader, term, sweep)
        clock.advance(LANE_SWEEP_EVERY_S)
    assert lane.id not in await _marks(kit)
    # It has no reason to ensure the lane: it has known it all the time.
    await other.add_tasks([Submission([task])], kit.now)
    assert (await _marks(kit))[lane.id] == 0
    await _sweep(leader, term, 3)
    assert await kit.status(task.id) is TaskStatus.PENDING
    (fresh,) = _masters(kit, 1)[1]
    assert await fresh.load_lanes([lane.id]) == [lane]


async def a_task_is_never_put_into_a_lane_that_nobody_remembers(store: Store, kit: Kit) -> None:
    _, (master,) = _masters(kit, 1)
    task = kit.new_task(lane=Lane.with_id("default", "rare", 5, Requirement("echo")))
    async with kit.unchanged():
        with pytest.raises(InvariantBroken, match="do not exist"):
            await master.add_tasks([Submission([task])], kit.now)


async def what_was_not_committed_confirms_nothing(store: Store, kit: Kit) -> None:
    _, (master,) = _masters(kit, 1)
    lane = Lane.with_id("default", "rare", 5, Requirement("echo"))
    write = master.engine.write

    async def torn(tx: Tx) -> None:
        raise StoreUnavailable("at the last moment")

    async def fail(work: object, term: int | None = None) -> object:
        return await write(torn, term)

    master.engine.write = fail  # type: ignore[method-assign, assignment]
    try:
        with pytest.raises(StoreUnavailable):
            await master.ensure_lanes([lane])
    finally:
        master.engine.write = write  # type: ignore[method-assign]
    await master.ensure_lanes([lane])
    assert lane.id in await _marks(kit)


async def every_verb_that_puts_tasks_into_a_lane_keeps_it(store: Store, kit: Kit) -> None:
    """By a master that has not ensured the lane itself: a task that stands there is no reason to trust its mark."""
    term = await kit.term()
    await made(kit)
    kit.later(MINUTE_MS)
    firings = await firings_due(kit)
    flow = await FlowKit.drafted(kit, {"list": {}, "each": {"after": ["list"], "for_each": "steps.list.result"}})
    low = await kit.known_lane(priority=1)
    task = await kit.submit_one(lane=low)
    await store.remove_unused_lanes(term, 1, [kit.lane.id])

    async def kept(number: int, lane: LaneId = kit.lane.id) -> None:
        assert (await _marks(kit))[lane] == 0
        await store.remove_unused_lanes(term, number, [lane])
        assert (await _marks(kit))[lane] != 0
        kit.store = _masters(kit, 1)[1][0]

    kit.store = _masters(kit, 1)[1][0]
    await kit.submit_one()
    await kept(2)
    await kit.store.fire_schedules(firings, term, kit.now)
    await kept(3)
    await flow.add()
    await kept(4)
    await flow.complete("list", [1, 2])
    assert len(await flow.items("each")) == 2
    await kept(5)
    await kit.store.load_lanes([kit.lane.id])
    await kit.store.change_tasks([task], task_state_machine.change_lane({low.id: kit.lane.id}), kit.now)
    assert (await kit.live(task)).lane == kit.lane.id
    await kept(6)


# -- helpers


def _masters(kit: Kit, count: int) -> tuple[FakeClock, list[SqlStore]]:
    """Each with a memory of its own, and a clock that all of them share."""
    clock = FakeClock()
    return clock, [SqlStore(kit.second.engine, clock.monotonic) for _ in range(count)]


async def _lanes_of_tasks(store: Store, limit: int) -> set[LaneId]:
    lanes, last = await store.lanes_of_tasks(0, limit)
    while last:
        more, last = await store.lanes_of_tasks(last, limit)
        lanes |= more
    return lanes


async def _sweep(store: Store, term: int, number: int) -> int:
    used = await _lanes_of_tasks(store, 2)
    unused = [lane for lane in await store.lane_ids(-1, 1_000) if lane not in used]
    return await store.remove_unused_lanes(term, number, unused)


async def _marks(kit: Kit) -> dict[LaneId, int]:
    rows = await kit.second.engine.read(lambda tx: tx.fetch("SELECT id, unused_mark FROM lane"))
    return dict(rows)


async def _mark(kit: Kit, lane: Lane) -> int:
    return (await _marks(kit))[lane.id]
