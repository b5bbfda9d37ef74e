"""The line between a node and its master is slow, cut for less than a lease, cut one way only, and cut for longer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from testkit.chaos import proxies
from testkit.chaos.network import Direction
from testkit.patience import promised
from tests.processes.fleet import Fleet, echo, fleet, sleep
from tests.processes.held_pages import ALLOW, USERS, WaitingTasks, held_site, held_tasks, lift_budgets

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
        await running.start_worker("far", *ALLOW, *USERS, slots=8, masters=await lines.join("far", [port]))
        await running.until_online(1)
        try:
            yield running, lines
        finally:
            await lines.heal("far")
            await running.close()
            await lines.close()


async def test_a_slow_and_a_cut_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with held_site() as site, far_worker(tmp_path, monkeypatch) as (running, lines):
        await lift_budgets(running)
        ids = await running.submit([echo(number) for number in range(40)])
        through = await running.submit(held_tasks(site, (1, 2)))
        await running.until_status(ids, "completed")
        await site.wait_held(2)
        for direction in (Direction.BOTH, Direction.DOWN):
            await lines.cut("far", direction)
            await asyncio.sleep(SHORT_S)
            await lines.heal("far")
            # Calls get through before the next cut.
            await running.until_status(await running.submit([echo(0)]), "completed")
        await site.release()
        await running.until_status(through, "completed")
        for task in through:
            assert len(await running.client.executions(task)) == 1, "shorter than a lease: nothing is taken away"

        (far,) = await running.client.nodes()
        waiting = WaitingTasks(tmp_path, 2)
        ended, lost = await running.submit(waiting.tasks), await running.submit([sleep(600)] * 2)
        await running.until_status([*ended, *lost], "processing")
        await running.until(waiting.are_running, "not all have started")
        await running.start_worker("near", *USERS, slots=8)
        await running.until_online(2)
        await lines.cut("far", Direction.BOTH)
        cut_at = time.monotonic()
        # They end there, which cannot be said.
        waiting.release()
        log = running.workers[0].log
        await running.until(
            lambda: "lease_lapsed" in log.read_text(), "it does not stop its own work", promised(LEASE_S)
        )

        async def are_elsewhere() -> bool:
            views = [await running.client.get(task) for task in [*ended, *lost]]
            return all(view.assigned_node not in (None, far.id) for view in views)

        left_s = promised(ELSEWHERE_S) - (time.monotonic() - cut_at)
        await running.until(are_elsewhere, "not all run elsewhere", left_s)
        await running.client.cancel_many(ids=lost)
        await lines.heal("far")
        await running.until_status(lost, "cancelled")
        await running.until_status(ended, "completed")
        for task in ended:
            told = [(one.status, one.node_id == far.id) for one in await running.client.executions(task)]
            assert told == [("lost", True), ("completed", False)]
        await running.until_online(2)
        assert await running.verdict() == []
