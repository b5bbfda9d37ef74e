"""The sweep for unused lanes: a little at a time, hours apart, and begun anew with every term."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import cast

import pytest

from crawlfleet.control.leader import lane_sweep
from crawlfleet.control.leader.lane_sweep import BATCH, BATCHES, FEW_LANES, STEP_EVERY_S, WINDOWS, LaneSweep
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId
from crawlfleet.ports.maintenance_store import LANE_SWEEP_EVERY_S, LanesOfTasks, RetentionStore
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit

TERM = 7


class NotingStore:
    """Lanes, and tasks of which each stands in one."""

    def __init__(self, lanes: Iterable[LaneId], tasks: Sequence[LaneId] = ()) -> None:
        self.lanes = sorted(lanes)
        self.tasks = list(tasks)
        self.window = 10
        self.looks = 0
        self.failures = 0
        self.calls: dict[tuple[int, int], list[LaneId]] = defaultdict(list)
        """What was removed or marked, by term and number."""

    async def lane_ids(self, after: LaneId, limit: int) -> list[LaneId]:
        return [lane for lane in self.lanes if lane > after][:limit]

    async def lanes_of_tasks(self, after: TaskId, limit: int) -> LanesOfTasks:
        self.looks += 1
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        found = self.tasks[after : after + self.window]
        return LanesOfTasks(set(found), after + self.window if len(found) == self.window else 0)

    async def remove_unused_lanes(self, term: int, sweep: int, lanes: Sequence[LaneId]) -> int:
        assert 0 < len(lanes) <= BATCH
        self.calls[term, sweep] += lanes
        return 0


class Sweeping:
    def __init__(self, store: NotingStore, few: int = 0) -> None:
        self.store = store
        self.clock = FakeClock()
        self.sweep = LaneSweep(store=cast("RetentionStore", store), clock=self.clock, few=few)

    async def steps(self, count: int = 1, term: int = TERM) -> None:
        for _ in range(count):
            await self.sweep.advance(term)
            self.clock.advance(STEP_EVERY_S)


async def test_lanes_without_a_task_are_handed_over_once_all_tasks_were_seen() -> None:
    sweeping = Sweeping(NotingStore(range(10), [3, 4, 5] * 40))
    await sweeping.steps()
    assert sweeping.store.calls == {(TERM, 1): [0, 1, 2, 6, 7, 8, 9]}


async def test_a_step_reads_a_few_windows() -> None:
    store = NotingStore(range(3), [1] * (2 * WINDOWS * 10 + 5))
    sweeping = Sweeping(store)
    for looks in (WINDOWS, 2 * WINDOWS):
        await sweeping.steps()
        assert store.looks == looks
        assert not store.calls
    await sweeping.steps()
    assert store.calls == {(TERM, 1): [0, 2]}


async def test_a_step_writes_a_few_batches() -> None:
    store = NotingStore(range(BATCH * BATCHES + 5))
    sweeping = Sweeping(store)
    await sweeping.steps()
    assert len(store.calls[TERM, 1]) == BATCH * BATCHES
    await sweeping.steps()
    assert store.calls[TERM, 1] == store.lanes


async def test_steps_do_not_follow_each_other_at_once() -> None:
    store = NotingStore(range(3), [1] * (2 * WINDOWS * 10 + 5))
    sweep = Sweeping(store).sweep
    for _ in range(5):
        await sweep.advance(TERM)
    assert store.looks == WINDOWS


async def test_the_next_sweep_begins_long_after_the_end_of_the_last_one() -> None:
    store = NotingStore(range(3), [1])
    sweeping = Sweeping(store)
    await sweeping.sweep.advance(TERM)
    sweeping.clock.advance(LANE_SWEEP_EVERY_S - 1)
    await sweeping.sweep.advance(TERM)
    assert set(store.calls) == {(TERM, 1)}
    sweeping.clock.advance(STEP_EVERY_S)
    await sweeping.sweep.advance(TERM)
    assert set(store.calls) == {(TERM, 1), (TERM, 2)}


async def test_a_new_term_begins_anew() -> None:
    store = NotingStore(range(3), [1] * (WINDOWS * 10 + 5))
    sweeping = Sweeping(store)
    await sweeping.steps()
    store.tasks = [2]
    await sweeping.steps(term=TERM + 1)
    assert store.calls == {(TERM + 1, 1): [0, 1]}


async def test_a_sweep_goes_on_where_the_store_was_away() -> None:
    store = NotingStore(range(3), [1] * (WINDOWS * 10) + [2])
    sweeping = Sweeping(store)
    await sweeping.steps()
    store.failures = 1
    with pytest.raises(StoreUnavailable):
        await sweeping.steps()
    sweeping.clock.advance(STEP_EVERY_S)
    await sweeping.steps()
    assert store.calls == {(TERM, 1): [0]}


async def test_it_ends_early_when_every_lane_is_in_use() -> None:
    store = NotingStore([1], [1] * 1_000)
    await Sweeping(store).steps()
    assert (store.looks, store.calls) == (1, {})


async def test_a_few_lanes_are_left_alone() -> None:
    for count, looks in ((FEW_LANES, 0), (FEW_LANES + 1, 1)):
        store = NotingStore(range(count))
        await Sweeping(store, FEW_LANES).steps()
        assert store.looks == looks


async def test_more_lanes_than_one_sweep_holds_are_looked_at_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_sweep, "MOST", 2 * BATCH)
    store = NotingStore(range(3 * BATCH))
    sweeping = Sweeping(store, few=FEW_LANES)
    for _ in range(3):
        await sweeping.steps()
        sweeping.clock.advance(LANE_SWEEP_EVERY_S)
    assert [store.calls[TERM, number] for number in (1, 2, 3)] == [
        store.lanes[: 2 * BATCH],
        store.lanes[2 * BATCH :],
        store.lanes[: 2 * BATCH],
    ]


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


async def test_a_lane_goes_with_the_second_sweep_after_its_last_task(kit: Kit) -> None:
    rare = await kit.known_lane("rare")
    task = await kit.ended_completed(lane=rare)
    await kit.submit_one()
    clock, term = FakeClock(), await kit.term()
    sweep = LaneSweep(store=kit.store, clock=clock, few=0)
    for drops in (True, False):
        await sweep.advance(term)
        assert rare.id in await kit.store.lane_ids(-1, 10)
        clock.advance(LANE_SWEEP_EVERY_S)
        if drops:
            await kit.store.drop_tasks([task], kit.now)
    await sweep.advance(term)
    assert await kit.store.lane_ids(-1, 10) == [kit.lane.id]
