"""Pulls of simple clients: what is delivered when, and how long a call waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.nodes.heartbeat import Heartbeat
from crawlfleet.control.nodes.pull import REDELIVERY_S, Pull
from crawlfleet.control.tasks.finish import Finish
from crawlfleet.errors import InvalidInput
from crawlfleet.model.node import ANY_TASK
from crawlfleet.ports.broker import LEADER, PULLS, node_topic
from testkit.clock import FakeClock
from testkit.factories import Kit, ReadyNode
from testkit.patience import PATIENCE_S
from tests.unit.store.store_kit import sqlite_kit


@pytest_asyncio.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


class PullKit:
    """The service over a store, with the test in the place of the leader."""

    def __init__(self, kit: Kit) -> None:
        self.kit, self.broker, self.clock = kit, MemoryBroker(), FakeClock()
        rng = Random(1)
        finish = Finish(store=kit.store, broker=self.broker, clock=self.clock, rng=rng)
        self.heartbeat = Heartbeat(store=kit.store, broker=self.broker, clock=self.clock, rng=rng, finish=finish)
        self.pull = Pull(store=kit.store, broker=self.broker, clock=self.clock, rng=rng, heartbeat=self.heartbeat)

    async def device(self) -> ReadyNode:
        node = await self.kit.join(is_pull_only=True)
        await self.heartbeat.ensure_session(node)
        return ReadyNode(node, 1)

    async def begin(self, node: ReadyNode, wait_s: float = 20.0) -> asyncio.Task[list[int]]:
        """Begin a pull, and return when it is open."""

        async def pulled() -> list[int]:
            answer = await self.pull.pull_tasks(node.id, 5, ANY_TASK, wait_s)
            return [task.row.id for task in answer.tasks]

        call = asyncio.create_task(pulled())
        assert await self.broker.signals.wait_for_signal(PULLS, PATIENCE_S)
        assert await self.broker.signals.wait_for_signal(LEADER, PATIENCE_S)
        return call

    async def wake(self, node: ReadyNode) -> None:
        await self.broker.signals.send_signals([node_topic(node.id)])


@pytest.fixture
def shop(kit: Kit) -> PullKit:
    return PullKit(kit)


async def test_what_is_assigned_meanwhile_ends_the_wait(kit: Kit, shop: PullKit) -> None:
    node = await shop.device()
    call = await shop.begin(node)
    (run,) = await kit.run(node)
    await shop.wake(node)
    assert await asyncio.wait_for(call, PATIENCE_S) == [run.task]


async def test_a_pull_that_does_not_wait_ends_when_the_leader_has_looked(shop: PullKit) -> None:
    node = await shop.device()
    call = await shop.begin(node, wait_s=0)
    await shop.wake(node)
    assert await asyncio.wait_for(call, PATIENCE_S) == []
    assert await shop.kit.store.open_pulls() == []


async def test_a_pull_that_waits_stays_when_the_leader_has_looked(kit: Kit, shop: PullKit) -> None:
    node = await shop.device()
    call = await shop.begin(node)
    await shop.wake(node)
    await asyncio.sleep(0)
    (run,) = await kit.run(node)
    await shop.wake(node)
    assert await asyncio.wait_for(call, PATIENCE_S) == [run.task]


async def test_a_newer_pull_ends_the_one_before(kit: Kit, shop: PullKit) -> None:
    node = await shop.device()
    older = await shop.begin(node)
    newer = await shop.begin(node)
    assert await asyncio.wait_for(older, PATIENCE_S) == []
    (run,) = await kit.run(node)
    await shop.wake(node)
    assert await asyncio.wait_for(newer, PATIENCE_S) == [run.task]


async def test_calls_that_wait_end_when_the_master_stops(shop: PullKit) -> None:
    node = await shop.device()
    call = await shop.begin(node)
    await shop.pull.release_calls()
    assert await asyncio.wait_for(call, PATIENCE_S) == []
    assert await shop.kit.store.open_pulls() == []


async def test_an_answer_that_was_lost_is_given_again_after_the_grace(kit: Kit, shop: PullKit) -> None:
    node = await shop.device()
    (run,) = await kit.run(node)
    for expected in ([run.task], [run.task]):
        answer = await shop.pull.pull_tasks(node.id, 1, ANY_TASK, 0)
        assert [task.row.id for task in answer.tasks] == expected
        shop.clock.advance(REDELIVERY_S)


async def test_the_highest_priority_comes_first(kit: Kit, shop: PullKit) -> None:
    node = await shop.device()
    low = await kit.run(node, lane=await kit.known_lane(priority=2))
    high = await kit.run(node, lane=await kit.known_lane(priority=9))
    answer = await shop.pull.pull_tasks(node.id, 5, ANY_TASK, 0)
    assert [(task.row.id, task.priority) for task in answer.tasks] == [(high[0].task, 9), (low[0].task, 2)]


@pytest.mark.parametrize(("want", "wait_s", "field"), [(0, 0, "max_tasks"), (101, 0, "max_tasks"), (1, 21, "wait_s")])
async def test_bounds_are_named(shop: PullKit, want: int, wait_s: float, field: str) -> None:
    node = await shop.device()
    with pytest.raises(InvalidInput) as refused:
        await shop.pull.pull_tasks(node.id, want, ANY_TASK, wait_s)
    assert refused.value.field == field


async def test_a_node_with_an_agent_is_refused(kit: Kit, shop: PullKit) -> None:
    node = await kit.node()
    async with kit.unchanged():
        with pytest.raises(InvalidInput):
            await shop.pull.pull_tasks(node.id, 1, ANY_TASK, 0)
