"""The event of tasks that are stuck: once, with the sentence, and again only after one of them was placed."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from crawlfleet.bootstrap.master import Master
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.model.event import Event
from crawlfleet.model.project import Project, Quotas
from crawlfleet.model.status import TaskStatus
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.store import SqlStore
from testkit.factories import PROJECT, Kit, KitClock, ReadyNode, Run


class Leading:
    """A leader of one project that may run one task at a time."""

    def __init__(self, kit: Kit, node: ReadyNode, master: Master) -> None:
        self.kit = kit
        self.node = node
        self.master = master

    async def passes(self, count: int = 40) -> None:
        """One a second."""
        for _ in range(count):
            self.kit.later(1_000)
            await self.kit.renew(self.node)
            await self.master.dispatcher.run_term(await self.kit.term(), self.kit.now)

    async def told(self) -> list[Event]:
        return [event for event in await self.kit.events() if event.kind == "scheduler.tasks_stuck"]

    async def complete(self) -> None:
        """What is on the node."""
        for row in (await self.kit.store.held_tasks([self.node.id]))[self.node.id]:
            applied = await self.kit.complete(Run(row.id, row.execution, self.node))
            await self.master.broker.freed_slots.post_slots(applied.freed)


@pytest.fixture
async def leading(tmp_path: Path) -> AsyncIterator[Leading]:
    migrate_sqlite(tmp_path / "fleet.sqlite3")
    engine = InlineEngine(tmp_path / "fleet.sqlite3", synchronous="OFF")
    store = SqlStore(engine)
    kit = await Kit.open(store, store)
    await store.change_project(PROJECT, lambda have: Project(have.name, quotas=Quotas(running=1)), 1, kit.now)
    node = await kit.node(task_types=("echo",))
    clock = KitClock(kit)
    master = Master(name="m", boot=99, store=store, broker=MemoryBroker(), clock=clock, rng=Random(1), schemas={})
    yield Leading(kit, node, master)
    await engine.close()


async def test_a_full_quota_is_told_once_for_all_who_wait(leading: Leading) -> None:
    first, second, third = await leading.kit.submit(3)
    await leading.passes(20)
    assert await leading.told() == []
    await leading.passes(40)
    (event,) = await leading.told()
    assert (event.data["cause"], event.data["project"], event.data["task"]) == ("quota", PROJECT, second)
    assert event.data["why"] == f"quota 'running' of project {PROJECT}: 1 of 1 in use"
    assert event.data["waited_s"] == 30
    await leading.complete()
    await leading.passes()
    assert [await leading.kit.status(task) for task in (first, second, third)] == [
        TaskStatus.COMPLETED,
        TaskStatus.ASSIGNED,
        TaskStatus.PENDING,
    ]
    assert [event.data["task"] for event in await leading.told()] == [second, third]


async def test_nobody_is_stuck_who_was_placed(leading: Leading) -> None:
    await leading.kit.submit(1)
    await leading.passes(60)
    assert await leading.told() == []
