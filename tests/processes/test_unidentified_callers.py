"""Callers without a token who try to hold up a master: endless heads, half requests, answers that are never read."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp
import psutil
import pytest
import pytest_asyncio

from tests.processes.fleet import Fleet, echo, fleet, sleep
from tests.processes.hostile_connections import (
    Attack,
    attacked,
    half_requests,
    send_endless_header,
    send_endless_trailer,
    send_million_headers,
    unread_answers,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

STRANGER = "127.0.0.66"
"""Another address of this machine than the honest callers'."""
ATTACK_S = 14.0
"""Longer than a lease: a node that cannot sync meanwhile loses its work."""
HEALTH_S = 2.0
"""For nine of ten calls: on a busy machine one may have to wait for a processor."""
LEASE_S = 9.0
FILES = 1_024
WITH_FEW_FILES = ("sh", "-c", f'ulimit -Sn {FILES}; exec "$@"', "sh")


class Held(NamedTuple):
    """A task under way on a worker."""

    fleet: Fleet
    task: str

    async def check_nothing_lost(self) -> None:
        """It still runs where it ran, and new work is done."""
        (execution,) = await self.fleet.client.executions(self.task)
        assert (execution.status, execution.end_time) == ("processing", None)
        done = await self.fleet.submit([echo(1)])
        await self.fleet.until_status(done, "completed")
        logs = "".join(worker.log.read_text() for worker in self.fleet.workers)
        assert "lease_lapsed" not in logs
        assert "session_ended" not in logs


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def held(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Held]:
    """The master begins with the usual limit of open files."""
    async with fleet(tmp_path_factory.mktemp("fleet")) as running:
        await running.start_master(within=WITH_FEW_FILES)
        await running.start_worker("worker")
        await running.until_online(1)
        (task,) = await running.submit([sleep(600)])
        await running.until_status([task], "processing")
        yield Held(running, task)
        await running.client.cancel(task)
        await running.until_status([task], "cancelled")
        assert await running.verdict() == []


async def check_health(running: Fleet, seconds: float) -> None:
    """An honest caller is answered in time, over a new connection each time."""
    took_s: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.request("GET", f"{running.client.url}/healthz", timeout=timeout) as response:
            assert response.status == 200
        took_s.append(time.monotonic() - began)
        await asyncio.sleep(0.2)
    took_s.sort()
    assert took_s[int(len(took_s) * 0.9)] < HEALTH_S, took_s
    assert took_s[-1] < LEASE_S, took_s


@pytest.mark.parametrize(
    "send", [send_endless_header, send_million_headers, send_endless_trailer], ids=lambda one: str(one.__name__)
)
async def test_heads_without_an_end_hold_up_nobody(held: Held, send: object) -> None:
    before = psutil.Process(held.fleet.master.pid).memory_info().rss
    attacks = [Attack(held.fleet.client.url, STRANGER, send) for _ in range(4)]  # type: ignore[arg-type]
    with attacked(*attacks):
        await held.fleet.until(lambda: all(attack.opened for attack in attacks), "not all have connected")
        await check_health(held.fleet, ATTACK_S)
    assert psutil.Process(held.fleet.master.pid).memory_info().rss - before < 100 << 20
    assert all(attack.closed_by_server for attack in attacks), "each was cut off"
    await held.check_nothing_lost()


async def test_half_requests_by_the_thousand_are_closed_and_keep_nobody_out(held: Held) -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 4 * FILES, "the attacker needs files of its own"
    attack = Attack(held.fleet.client.url, STRANGER, half_requests(1_200))
    with attacked(attack):
        await held.fleet.until(lambda: attack.opened >= 1_200, "not all have connected")
        await check_health(held.fleet, ATTACK_S)
        assert attack.closed_by_server >= 1_000
    master = psutil.Process(held.fleet.master.pid)
    await held.fleet.until(lambda: master.num_fds() < 200, "the half requests are still open")
    await held.check_nothing_lost()


async def test_half_requests_from_their_own_address_keep_no_worker_out(held: Held) -> None:
    """Many callers behind one address: those who have shown a token are not counted with the others."""
    attack = Attack(held.fleet.client.url, "127.0.0.1", half_requests(1_200))
    with attacked(attack):
        await held.fleet.until(lambda: attack.opened >= 1_200, "not all have connected")
        await held.fleet.start_worker("late")
        await held.fleet.until_online(len(held.fleet.workers))
        await check_health(held.fleet, ATTACK_S)
    await held.check_nothing_lost()


async def test_answers_that_are_not_read_are_given_up(held: Held) -> None:
    master = psutil.Process(held.fleet.master.pid)
    before, files = master.memory_info().rss, master.num_fds()
    attack = Attack(held.fleet.client.url, STRANGER, unread_answers(100, "/openapi.json"))
    with attacked(attack):
        await held.fleet.until(lambda: attack.opened >= 100, "not all have connected")
        await check_health(held.fleet, ATTACK_S)
        assert master.memory_info().rss - before < 300 << 20
        await held.fleet.until(lambda: master.num_fds() < files + 30, "connections that read nothing are still open")
    await held.check_nothing_lost()


async def test_the_limit_of_open_files_is_raised_at_the_start(held: Held) -> None:
    soft, hard = resource.prlimit(held.fleet.master.pid, resource.RLIMIT_NOFILE)
    assert soft == hard > FILES
    await held.fleet.start_worker("few-files", within=WITH_FEW_FILES)
    await held.fleet.until_online(len(held.fleet.workers))
    soft, hard = resource.prlimit(held.fleet.workers[-1].pid, resource.RLIMIT_NOFILE)
    assert soft == hard > FILES
