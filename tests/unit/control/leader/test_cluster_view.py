"""A hint of a lane whose row is gone costs one pass of the leader, and no more."""

from pathlib import Path
from random import Random

import pytest

from crawlfleet.bootstrap.master import Master
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.errors import InvariantBroken
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from testkit.factories import KitClock
from tests.unit.store.store_kit import sqlite_kit


async def test_the_leader_drops_a_window_over_a_lane_that_does_not_exist(tmp_path: Path) -> None:
    gone = Lane.with_id("default", "gone", 5, Requirement("echo"))
    async with sqlite_kit(tmp_path) as kit:
        await kit.node(task_types=("echo",))
        broker = MemoryBroker()
        master = Master(
            name="m", boot=99, store=kit.store, broker=broker, clock=KitClock(kit), rng=Random(1), schemas={}
        )
        await master.dispatcher.run_term(await kit.term(), kit.now)
        await broker.ready_index.offer_tasks({gone.id: [kit.ids.new_id()]})
        task = await kit.submit_one()
        await broker.ready_index.offer_tasks({kit.lane.id: [task]})
        with pytest.raises(InvariantBroken, match="do not exist"):
            await master.dispatcher.run_term(await kit.term(), kit.later())
        assert [window.lane for window in await broker.ready_index.list_windows()] == [kit.lane.id]
        await master.dispatcher.run_term(await kit.term(), kit.later())
        assert await kit.status(task) is TaskStatus.ASSIGNED
