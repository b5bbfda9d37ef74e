"""The proxy that stands for a network: what is cut does not get through, and nobody is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from testkit.chaos.network import Direction
from testkit.chaos.proxies import Proxies
from testkit.patience import PATIENCE_S


@asynccontextmanager
async def _echoing() -> AsyncIterator[tuple[Proxies, asyncio.StreamReader, asyncio.StreamWriter, list[bytes]]]:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            heard.append(line)
            writer.write(line)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    network = Proxies()
    (url,) = await network.join("worker", [server.sockets[0].getsockname()[1]])
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    try:
        yield network, reader, writer, heard
    finally:
        writer.close()
        await writer.wait_closed()
        await network.close()
        server.close()
        await server.wait_closed()


async def test_it_carries_what_is_sent() -> None:
    async with _echoing() as (_, reader, writer, _heard):
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"


@pytest.mark.parametrize("direction", list(Direction))
async def test_a_cut_line_is_silent_and_goes_on_when_it_is_healed(direction: Direction) -> None:
    async with _echoing() as (network, reader, writer, heard):
        writer.write(b"before\n")
        await reader.readline()
        await network.cut("worker", direction)
        writer.write(b"meanwhile\n")
        if direction is Direction.DOWN:
            async with asyncio.timeout(PATIENCE_S):
                while b"meanwhile\n" not in heard:  # noqa: ASYNC110 - the server only writes down what it heard
                    await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.readline()
        assert (b"meanwhile\n" in heard) is (direction is Direction.DOWN)
        await network.heal("worker")
        assert await reader.readline() == b"meanwhile\n"


async def test_a_connection_to_a_master_that_is_gone_ends() -> None:
    network = Proxies()
    (url,) = await network.join("worker", [1])
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    await network.close()
