"""A worker that was given one master learns of the others, and goes on with them when its own is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from testkit.patience import PATIENCE_S
from testkit.servers import PostgresServer, RedisServer
from testkit.servers.server import free_port
from tests.processes.masters import ManyMasters, MasterAt, many_masters

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]


async def start_masters(running: ManyMasters) -> tuple[MasterAt, MasterAt]:
    first, second = (MasterAt(name, running.folder, free_port()) for name in ("m0", "m1"))
    running.masters += [first, second]
    for place in (first, second):
        await running.start_at(place, "--advertise-url", place.url)
    running.client = second.client
    return first, second


async def test_a_worker_survives_the_only_master_that_it_was_given(tmp_path: Path) -> None:
    with PostgresServer() as postgres, RedisServer() as redis:
        async with many_masters(tmp_path, postgres.create_database(), redis.url) as running:
            first, second = await start_masters(running)
            token = (await first.client.create_token("enrol", uses=1)).token
            worker = await running.start_worker_of(first, "w0", token=token, urls=[first.url])
            await running.until_online(1)
            file = tmp_path / "w0" / "masters.json"

            def has_learned() -> bool:
                return file.exists() and second.url in msgspec.json.decode(file.read_bytes())["reported"]

            await running.until(has_learned, "the worker has not learned of the second master", PATIENCE_S)
            await first.process.kill()
            done = await second.client.submit("echo", {"n": 1})
            await asyncio.wait_for(second.client.wait([done.id]), PATIENCE_S)

            # The next start knows it from its file: the first master is still away.
            assert await worker.stop() == 0
            await running.start_worker_of(first, "w0", urls=[first.url])
            again = await second.client.submit("echo", {"n": 2})
            await asyncio.wait_for(second.client.wait([again.id]), PATIENCE_S)
            alive = {master.name: master.is_alive for master in await second.client.masters()}
            assert alive["m1"]
            await running.start_at(first, "--advertise-url", first.url)
