"""The limit on waiting tasks over a real store: by its counters, and by what is configured while it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlfleet.bootstrap.master import Master, MasterOptions
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.tasks.admission import WaitingLimit
from crawlfleet.errors import OverLimit
from crawlfleet.model import limits
from crawlfleet.model.ids import TaskId
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.ports.task_store import Accepted
from crawlfleet.wire.tasks import TaskBody
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit

ECHO = TaskBody("echo")


class Desk:
    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.clock = FakeClock(kit.now)

    async def master(self, most: int) -> Master:
        terms = MasterOptions(waiting=WaitingLimit(installation=most))
        return await Master.start("m", self.kit.store, MemoryBroker(), {"echo": {}}, clock=self.clock, options=terms)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with sqlite_kit(tmp_path) as kit:
        yield Desk(kit)


async def submit(master: Master, count: int, key: str | None = None) -> list[TaskId]:
    answer = await master.submit.submit_tasks([ECHO] * count, key=key)
    return [item.id for item in answer.items if isinstance(item, Accepted)]


async def test_two_masters_see_each_other_s_tasks_a_second_later(desk: Desk) -> None:
    one, two = await desk.master(10), await desk.master(10)
    await submit(two, 1)
    await submit(one, 8)
    desk.clock.advance(1)
    with pytest.raises(OverLimit):
        await submit(two, 2)
    await submit(two, 1)


async def test_tasks_that_are_cancelled_make_room(desk: Desk) -> None:
    master = await desk.master(10)
    tasks = await submit(master, 10)
    with pytest.raises(OverLimit):
        await submit(master, 1)
    await desk.kit.cancel(*tasks[:4])
    desk.clock.advance(1)
    assert len(await submit(master, 4)) == 4


async def test_a_replay_takes_no_room(desk: Desk) -> None:
    master = await desk.master(10)
    first = await submit(master, 4, key="k")
    assert await submit(master, 4, key="k") == first
    assert len(await submit(master, 6)) == 6


async def test_a_replay_gets_its_first_answer_though_nothing_more_fits(desk: Desk) -> None:
    master = await desk.master(10)
    first = await submit(master, 4, key="k")
    await submit(master, 6)
    assert await submit(master, 4, key="k") == first
    with pytest.raises(OverLimit):
        await submit(master, 4, key="other")
    mismatch = await master.submit.submit_tasks([ECHO], key="k")
    assert [item.code for item in mismatch.items if isinstance(item, Refusal)] == [Code.IDEMPOTENCY_MISMATCH]
    desk.clock.advance(limits.IDEMPOTENCY_KEEP_MS / 1000)
    with pytest.raises(OverLimit):
        await submit(master, 4, key="k")


async def test_the_limit_is_changed_while_it_runs(desk: Desk) -> None:
    master = await desk.master(10)
    await submit(master, 3)
    await master.configure.put_config("default", {"max_waiting": 5}, by="ann")
    desk.clock.advance(1)
    with pytest.raises(OverLimit, match="limit of 5"):
        await submit(master, 3)
    await master.configure.put_config("default", {}, by="ann")
    desk.clock.advance(1)
    await submit(master, 7)


async def test_a_master_tells_the_store_what_it_was_built_with(desk: Desk) -> None:
    await desk.master(10)
    assert [(record.name, record.version) for record in await desk.kit.store.task_types()] == [("echo", 1)]
