"""Slots by load: raised and lowered by the leader, heard by the node, and a person's word before all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.control.loops.scaler import ScaleReport
from crawlfleet.model.node import Cluster, Measurement
from crawlfleet.ports.node_store import Renewal
from tests.unit.control.test_taking_effect import Installation, Played, begin
from tests.unit.store.store_kit import sqlite_kit

NOTHING = ScaleReport()
CALM, BUSY = Measurement(cpu=0.2, memory=0.3, load=0.5), Measurement(cpu=1.0, memory=0.5, load=1.0)


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Installation]:
    async with sqlite_kit(tmp_path) as kit:
        await kit.store.put_cluster(Cluster("eu"), kit.now)
        yield await begin(kit)


class Watched:
    def __init__(self, one: Installation, node: Played) -> None:
        self.one = one
        self.node = node
        self._number = 1_000

    @classmethod
    async def full(cls, one: Installation, slots: int = 8, waiting: int = 50, **fields: Any) -> Watched:
        node = await one.online("n", slots, "eu")
        await one.submit(slots + waiting, **fields)
        await one.dispatch()
        return cls(one, node)

    async def measures(self, measurement: Measurement, seconds: float) -> list[ScaleReport]:
        """What the leader does while the node measures this."""
        done = []
        term = self.one.master.lead.term
        assert term is not None
        for _ in range(int(seconds / 5)):
            self.one.clock.advance(5)
            self._number += 1
            renewal = Renewal(self.node.id, 1, self._number, msgspec.json.encode(measurement))
            await self.one.store.renew_leases([renewal], self.one.clock.now())
            report = await self.one.master.scaler.run_term(term, self.one.clock.now())
            if report != NOTHING:
                done.append(report)
        return done

    async def slots(self) -> int | None:
        """What the node is told."""
        self.node._number = self._number
        self._number += 1
        return (await self.node.sync()).slots


async def test_slots_rise_a_little_while_work_waits_and_there_is_room(one: Installation) -> None:
    watched = await Watched.full(one)
    await one.configure("eu", concurrency="auto")
    assert await watched.measures(CALM, 25) == []
    assert await watched.measures(CALM, 10) == [ScaleReport(raised=1)]
    assert await watched.slots() == 9
    assert await one.dispatch() == 1, "it is given what it may run now"
    await one.master.relay.run_once(0)
    told = [event.data for event in await one.store.events_after(0, 10_000) if event.kind == "node.slots_changed"]
    assert told == [
        {
            "node": watched.node.id,
            "old": 8,
            "new": 9,
            "reason": "all slots are used, work waits, and there is room for more",
        }
    ]


async def test_slots_fall_under_a_load_that_is_too_much_and_nothing_that_runs_is_stopped(one: Installation) -> None:
    watched = await Watched.full(one)
    await one.configure("eu", concurrency="auto")
    assert await watched.measures(BUSY, 35) == [ScaleReport(lowered=1)]
    assert await watched.slots() == 7
    assert await one.holds(watched.node) == [8]
    down = await watched.node.sync()
    assert (down.recalls, down.stops) == ([], [])


async def test_slots_stay_within_the_bounds_of_the_cluster(one: Installation) -> None:
    watched = await Watched.full(one)
    await one.configure("eu", concurrency="auto", slots_min=6, slots_max=7)
    assert await watched.measures(CALM, 5) == [ScaleReport(lowered=1)]
    assert await watched.slots() == 7
    await watched.measures(BUSY, 600)
    assert await watched.slots() == 6


async def test_a_cluster_with_fixed_slots_is_left_alone(one: Installation) -> None:
    watched = await Watched.full(one)
    assert await watched.measures(BUSY, 120) == []
    assert await watched.slots() is None


async def test_one_node_may_follow_its_load_where_the_others_do_not(one: Installation) -> None:
    watched = await Watched.full(one)
    await one.master.node_changes.set_slots(watched.node.id, None, follows_load=True)
    assert await watched.measures(BUSY, 35) == [ScaleReport(lowered=1)]
    assert await watched.slots() == 7
    await one.master.node_changes.set_slots(watched.node.id, None)
    assert await watched.slots() is None


async def test_a_person_s_number_ends_it(one: Installation) -> None:
    watched = await Watched.full(one)
    await one.configure("eu", concurrency="auto")
    await watched.measures(BUSY, 35)
    await one.master.node_changes.set_slots(watched.node.id, 12)
    assert await watched.measures(BUSY, 300) == []
    assert await watched.slots() == 12


async def test_nothing_rises_for_work_that_the_node_could_not_take(one: Installation) -> None:
    watched = await Watched.full(one, waiting=0)
    await one.configure("eu", concurrency="auto")
    await one.submit(5, cluster="asia")
    await one.submit(5, queue="night")
    await one.store.set_queue_paused("night", True, one.clock.now())
    assert await watched.measures(CALM, 120) == []
    await one.store.set_queue_paused("night", False, one.clock.now())
    assert await watched.measures(CALM, 5) == [ScaleReport(raised=1)]
