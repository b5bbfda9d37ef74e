"""Every master and every worker is restarted in turn while tasks come in: nobody's task fails for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from testkit.patience import PATIENCE_S
from testkit.servers import RedisServer
from tests.processes.fleet import sleep
from tests.processes.masters import ManyMasters, many_masters

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]


async def test_a_rolling_restart_under_load_fails_no_task(tmp_path: Path, postgres_dsn: str) -> None:
    with RedisServer() as redis:
        async with many_masters(tmp_path, postgres_dsn, redis.url) as running:
            await running.start_all(slots=6)
            stop = asyncio.Event()
            ids: list[str] = []
            submitting = asyncio.create_task(_submit_on(running, ids, stop))
            await running.until(lambda: len(ids) > 10, "nothing is taken")
            for place in running.masters:
                await running.restart(place)
            for worker in list(running.workers):
                assert await worker.stop() == 0, worker.log.read_text()
                # Without a token: it comes back as the node it was.
                await running.start_worker_of(running.masters[0], worker.name, slots=6)
                await running.until_online(2)
            await running.until(lambda: len(ids) > 100, "too little is taken")
            stop.set()
            await submitting
            tasks = await running.client.wait(ids, timeout=PATIENCE_S)
            assert {task.status for task in tasks} == {"completed"}
            assert {(task.retry_count, task.losses) for task in tasks} == {(0, 0)}
            assert len(await running.client.nodes()) == 2
            assert await running.verdict() == []
            assert "Traceback" not in running.logs()


async def _submit_on(running: ManyMasters, ids: list[str], stop: asyncio.Event) -> None:
    """To whichever master takes it; the same key makes two tries of one task one."""
    number = 0
    while not stop.is_set():
        number += 1
        headers = {"Idempotency-Key": f"rolling-{number}"}
        turn = number
        while True:
            try:
                place = running.masters[turn % 2]
                answer = await running.at(place, "POST", "/api/v1/tasks", json=sleep(0.3), headers=headers)
            except aiohttp.ClientError:
                turn += 1
                await asyncio.sleep(0.02)
                continue
            break
        assert answer.status in (200, 201), answer.body
        ids.append(answer.json["id"])
        await asyncio.sleep(0.03)
    running.note(ids)
