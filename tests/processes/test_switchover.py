"""A master whose PostgreSQL becomes read-only answers 503 to writes, and works on at the promoted standby."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from testkit.servers.postgres import PostgresServer, PostgresStandby
from tests.processes.fleet import echo, fleet

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]


async def test_writes_are_unavailable_until_the_standby_is_promoted(tmp_path: Path) -> None:
    with PostgresServer(fsync=False) as primary, await asyncio.to_thread(PostgresStandby, primary) as standby:
        store = f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        async with fleet(tmp_path) as running:
            await running.start_master("--store", store)
            await running.start_worker("worker-0")
            await running.until_online(1)
            await running.until_status(await running.submit([echo(1)]), "completed")
            await asyncio.to_thread(primary.set_read_only, True)

            statuses = set()

            async def is_refused() -> bool:
                answer = await running.call("POST", "/api/v1/tasks", json=echo(2))
                statuses.add(answer.status)
                if answer.status != 503:
                    return False
                assert answer.json["code"] == "store_unavailable"
                assert int(answer.headers["Retry-After"]) > 0
                return "read-only" in answer.json["detail"]

            await running.until(is_refused, "a read-only store is not told")
            assert statuses <= {201, 503}
            await asyncio.to_thread(standby.promote)
            await asyncio.to_thread(standby.set_read_only, False)

            async def is_taken() -> bool:
                answer = await running.call("POST", "/api/v1/tasks", json=echo(3))
                statuses.add(answer.status)
                if answer.status == 201:
                    running.note([answer.json["id"]])
                return answer.status == 201

            await running.until(is_taken, "the promoted standby takes no tasks")
            assert statuses <= {201, 503}
            (last,) = await running.submit([echo(4)])
            await running.until_status([last], "completed")
            await asyncio.to_thread(primary.kill)
            await running.until_status(await running.submit([echo(5)]), "completed")
