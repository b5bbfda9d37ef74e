"""Pulls with several masters: at one that does not lead, without any hint between them, and through a change of leader.

Each master has a broker of its own, so that every hint to the other is lost: the store alone has to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from crawlfleet.bootstrap.master import Master
from crawlfleet.bootstrap.stores import open_store
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.nodes.pull import Pull, PullAnswer
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.node import ANY_TASK, NodeDescription
from crawlfleet.ports.broker import PULLS
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.wire.tasks import TaskBody
from testkit.patience import PATIENCE_S

pytestmark = pytest.mark.integration


class RunningMaster:
    def __init__(self, master: Master) -> None:
        self.master = master
        self.pull = Pull(
            store=master.store, broker=master.broker, clock=master.clock, rng=Random(1), heartbeat=master.heartbeat
        )
        self._loops = asyncio.create_task(master.run())

    async def stop(self) -> None:
        self._loops.cancel()
        with suppress(asyncio.CancelledError):
            await self._loops

    async def submit(self) -> TaskId:
        (item,) = (await self.master.submit.submit_tasks([TaskBody("echo")])).items
        assert isinstance(item, Accepted)
        return item.id

    async def pull_one(self, node: NodeId) -> list[TaskId]:
        """Pull until something comes."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer: PullAnswer = await self.pull.pull_tasks(node, 1, ANY_TASK, 20)
                if answer.tasks:
                    return [task.row.id for task in answer.tasks]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    migrate_sqlite(tmp_path / "fleet.sqlite3")
    opened = await open_store(f"sqlite:///{tmp_path / 'fleet.sqlite3'}")
    yield opened
    await opened.close()


@asynccontextmanager
async def two_masters(store: Store) -> AsyncIterator[tuple[RunningMaster, RunningMaster]]:
    """The first of them leads."""
    leader = RunningMaster(await Master.start("leader", store, MemoryBroker(), {"echo": {}}))
    await leader.master.lead.wait_for_term()
    other = RunningMaster(await Master.start("other", store, MemoryBroker(), {"echo": {}}))
    try:
        yield leader, other
    finally:
        await leader.stop()
        await other.stop()


async def join(running: RunningMaster) -> NodeId:
    description = NodeDescription("d", slots=3, task_types=("echo",), device_id="d", is_pull_only=True, lease_ms=60_000)
    return (await running.master.register.register_node(description, "join")).node


async def test_a_pull_at_a_master_that_does_not_lead_is_filled(store: Store) -> None:
    async with two_masters(store) as (leader, other):
        node = await join(other)
        tasks = [await leader.submit(), await other.submit()]
        pulled = [*await other.pull_one(node), *await leader.pull_one(node)]
        assert sorted(pulled) == sorted(tasks)


async def test_a_pull_outlives_its_leader(store: Store) -> None:
    async with two_masters(store) as (leader, other):
        node = await join(other)
        waiting = asyncio.create_task(other.pull_one(node))
        assert await other.master.broker.signals.wait_for_signal(PULLS, PATIENCE_S)
        await leader.stop()
        task = await other.submit()
        assert await asyncio.wait_for(waiting, PATIENCE_S) == [task]
        assert other.master.lead.term is not None
