"""The line between a node and its master is slow, cut for less than a lease, cut one way only, and cut for longer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crawlfleet.testing.chaos import proxies
from crawlfleet.testing.chaos.network import Direction
from tests.processes.fleet import Fleet, echo, fleet, sleep

pytestmark = [pytest.mark.integration, pytest.mark.slow]

LEASE_S = 9.0
SHORT_S = 3.0
ELSEWHERE_S = 15.0


class SlowLine(proxies.Line):
    """200 ms each way, give or take."""

    async def passable(self, direction: Direction) -> None:
        await super().passable(direction)
        await asyncio.sleep(random.uniform(0.15, 0.25))


@asynccontextmanager
async def far_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Fleet, proxies.Proxies]]:
    monkeypatch.setattr(proxies, "Line", SlowLine)
    lines = proxies.Proxies()
    async with fleet(folder) as running:
        await running.start_master()
        port = int(running.client.url.rpartition(":")[2])
        await running.start_worker("far", slots=8, masters=await lines.join("far", [port]))
        await running.until_online(1)
        try:
            yield running, lines
        finally:
            await lines.heal("far")
            await running.close()
            await lines.close()


async def test_a_slow_and_a_cut_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with far_worker(tmp_path, monkeypatch) as (running, lines):
        ids = await running.submit([echo(number) for number in range(40)])
        through = await running.submit([sleep(9)] * 2)
        await running.until_status(ids, "completed", within_s=10)
        await running.until_status(through, "processing")
        for direction in (Direction.BOTH, Direction.DOWN):
            await lines.cut("far", direction)
            await asyncio.sleep(SHORT_S)
            await lines.heal("far")
            # Calls get through before the next cut.
            await asyncio.sleep(1.5)
        await running.until_status(through, "completed", within_s=10)
        for task in through:
            assert len(await running.client.executions(task)) == 1, "shorter than a lease: nothing is taken away"

        (far,) = await running.client.nodes()
        ended, lost = await running.submit([sleep(3)] * 2), await running.submit([sleep(30)] * 2)
        await running.start_worker("near", slots=8)
        await running.until_status([*ended, *lost], "processing")
        await lines.cut("far", Direction.BOTH)
        cut_at = time.monotonic()
        log = running.workers[0].log
        await running.until_online(2)
        await running.until(lambda: "lease_lapsed" in log.read_text(), "it does not stop its own work", LEASE_S)

        async def are_elsewhere() -> bool:
            views = [await running.client.get(task) for task in [*ended, *lost]]
            return all(view.assigned_node not in (None, far.id) for view in views)

        await running.until(are_elsewhere, "not all run elsewhere", ELSEWHERE_S - (time.monotonic() - cut_at))
        await running.client.cancel_many(ids=lost)
        await lines.heal("far")
        await running.until_status(lost, "cancelled")
        await running.until_status(ended, "completed")
        for task in ended:
            # It had ended there before the lease did, and could not say so in time.
            told = [(one.status, one.node_id == far.id) for one in await running.client.executions(task)]
            assert told == [("lost", True), ("completed", False)]
        await running.until_online(2)
        assert await running.verdict() == []
