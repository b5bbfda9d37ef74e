"""The leader dies, or stands still and wakes: another places within five seconds, and what runs does not notice."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testkit.patience import PATIENCE_S, promised
from testkit.servers import RedisServer
from testkit.site import SiteProcess
from tests.processes.fleet import sleep
from tests.processes.held_pages import ALLOW, held_site, held_tasks, lift_budgets
from tests.processes.masters import ManyMasters, MasterAt, many_masters

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]

REPLACED_S = 5.0
HANDED_OVER_S = 3.0
"""A leader that leaves says so: nobody waits for it to be missed."""


@pytest.fixture
async def site() -> AsyncIterator[SiteProcess]:
    async with held_site() as site:
        yield site


@pytest.fixture
async def running(tmp_path: Path, postgres_dsn: str) -> AsyncIterator[ManyMasters]:
    with RedisServer() as redis:
        async with many_masters(tmp_path, postgres_dsn, redis.url) as running:
            await running.start_all(*ALLOW)
            await lift_budgets(running)
            yield running


async def test_a_killed_a_leaving_and_a_frozen_leader_are_replaced_in_time(
    running: ManyMasters, site: SiteProcess
) -> None:
    killed, other = await running.leader(), await running.follower()
    # It spans the kill, on both nodes: one of them talks to the master that dies.
    through = await running.submit(held_tasks(site, range(1, 7)))
    await site.wait_held(6)
    await killed.process.kill()
    assert await _places(running, other) < promised(REPLACED_S)
    running.client = other.client
    await site.release()
    await running.until_status(through, "completed")
    for task in through:
        assert len(await other.client.executions(task)) == 1, "nothing was taken from a node that moved"
    await running.until_online(2)

    await running.start_at(killed)
    assert await running.leader() is other, "a master that comes back does not take the lead"
    assert await other.process.stop() == 0
    assert await _places(running, killed) < promised(HANDED_OVER_S)
    running.client = killed.client
    await running.start_at(other)

    frozen, waking = killed, other
    await site.hold()
    through = await running.submit(held_tasks(site, range(7, 13)))
    flood = await running.submit([sleep(0.02)] * 500)
    await site.wait_held(6)
    frozen.process.signal(signal.SIGSTOP)
    running.client = waking.client
    assert await _places(running, waking) < promised(REPLACED_S)
    # The old one wakes while there is something to place, and must not place it.
    term = await running.ask("SELECT term FROM leader")
    flood += await running.submit([sleep(0.02)] * 500)
    frozen.process.signal(signal.SIGCONT)
    await running.until(lambda: _knows_it_is_over(frozen), "it still thinks that it leads")
    await site.release()
    await waking.client.wait([*through, *flood], timeout=PATIENCE_S)
    assert await running.ask("SELECT term FROM leader") == term
    assert await running.leader() is waking
    for task in through:
        assert len(await waking.client.executions(task)) == 1
    # It serves again, as a follower.
    running.note([(await frozen.client.submit("echo", {})).id])
    stats = await running.until_final((await waking.client.stats()).total)
    assert {status for status, count in stats.items() if count} == {"completed"}
    assert await running.verdict() == []


async def _places(running: ManyMasters, place: MasterAt) -> float:
    """How long it takes from now until a task given to this master has been placed and has run."""
    began = time.monotonic()
    accepted = await place.client.submit("echo", {}, priority=10)
    running.note([accepted.id])
    async with asyncio.timeout(PATIENCE_S):
        (task,) = await place.client.wait([accepted.id])
    assert task.status == "completed"
    return time.monotonic() - began


async def _knows_it_is_over(place: MasterAt) -> bool:
    told = place.log()
    lost = max(told.rfind("stepped_down"), told.rfind("term_over"))
    return lost > told.rfind("leads ")
