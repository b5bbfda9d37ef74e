"""A WebSocket and an event stream have the same numbers, across a reconnect and the death of the leader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from testkit.patience import PATIENCE_S
from testkit.servers import RedisServer
from tests.processes.fleet import echo
from tests.processes.masters import ManyMasters, MasterAt, many_masters

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
async def running(tmp_path: Path, postgres_dsn: str) -> AsyncIterator[ManyMasters]:
    with RedisServer() as redis:
        async with many_masters(tmp_path, postgres_dsn, redis.url) as running:
            await running.start_all(workers=1)
            yield running


class SocketReader:
    """Collects the events of one subscription, from one master after another."""

    def __init__(self, running: ManyMasters) -> None:
        self._running = running
        self.events: list[dict[str, Any]] = []
        self.after = 0

    async def read_until(self, place: MasterAt, last: int) -> None:
        """Read from a master until the event of this number; a connection that breaks is left where it broke."""
        headers = {"Authorization": f"Bearer {self._running.admin}"}
        url = f"{place.url}/api/v1/events/ws"
        async with (
            asyncio.timeout(PATIENCE_S),
            aiohttp.ClientSession() as session,
            session.ws_connect(url, protocols=["crawlfleet.v1"], headers=headers) as socket,
        ):
            await socket.send_json({"op": "subscribe", "id": "all", "after": self.after})
            async for message in socket:
                event = json.loads(message.data)
                if "number" not in event or "op" in event:
                    continue
                self.events.append(event)
                self.after = event["number"]
                if self.after >= last:
                    return


async def test_both_have_the_same_numbers_across_a_reconnect_and_a_dead_leader(running: ManyMasters) -> None:
    killed, other = await running.leader(), await running.follower()
    reader = SocketReader(running)
    await running.until_status(await running.submit([echo(number) for number in range(20)]), "completed")
    seen = await last_number(running, killed)
    # The first connection is left in the middle of what there is.
    await reader.read_until(killed, seen // 2)
    broken = asyncio.create_task(reader.read_until(killed, 1 << 62))
    await running.until(lambda: reader.after >= seen, "the socket stays behind the log")
    await killed.process.kill()
    await asyncio.wait([broken])

    running.client = other.client
    await running.until_status(await running.submit([echo(number) for number in range(20)]), "completed")
    await reader.read_until(other, await last_number(running, other))

    numbers = [event["number"] for event in reader.events]
    assert numbers == list(range(1, len(numbers) + 1)), "each event once, in order"
    streamed = []
    async for event in other.client.events(after=0):
        streamed.append((event.number, event.kind, event.data))
        if event.number == numbers[-1]:
            break
    assert streamed == [(event["number"], event["kind"], event["data"]) for event in reader.events]


async def last_number(running: ManyMasters, place: MasterAt) -> int:
    return (await place.client.event_page(limit=1)).last
