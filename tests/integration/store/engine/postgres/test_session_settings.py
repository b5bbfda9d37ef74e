"""A pooler that drops or refuses the settings of connections is noticed at the start, with what to do."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest

from crawlfleet.bootstrap.stores import open_store
from crawlfleet.errors import ConfigError
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.postgres.session_settings import check_settings, session_settings
from testkit.servers.postgres import PostgresServer
from tests.integration.store.engine.postgres.test_address import forward

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

Pairs = dict[str, str]
OWN = ("user", "database", "client_encoding", "application_name")
"""The settings that poolers pass on."""


def keep_own(pairs: Pairs) -> Pairs:
    return {name: value for name, value in pairs.items() if name in OWN}


def refuse_others(pairs: Pairs) -> Pairs | bytes:
    strange = next((name for name in pairs if name not in OWN), None)
    if strange is None:
        return pairs
    fields = f"SFATAL\0C08P01\0Munsupported startup parameter: {strange}\0\0".encode()
    return b"E" + struct.pack("!i", len(fields) + 4) + fields


@asynccontextmanager
async def pooler(dsn: str, change: Callable[[Pairs], Pairs | bytes]) -> AsyncIterator[str]:
    """Stand between a client and the server, and change the settings in the first message of each connection."""
    target = urlsplit(dsn)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack("!i", await reader.readexactly(4))
        message = await reader.readexactly(length - 4)
        if message[:4] == struct.pack("!i", 80877102):
            # A request to cancel a statement: it has no settings.
            writer.close()
            return
        parts = message[4:].rstrip(b"\0").split(b"\0")
        changed = change({name.decode(): value.decode() for name, value in zip(parts[::2], parts[1::2], strict=True)})
        if isinstance(changed, bytes):
            writer.write(changed)
            await writer.drain()
            writer.close()
            return
        body = message[:4] + b"".join(f"{name}\0{value}\0".encode() for name, value in changed.items()) + b"\0"
        there, away = await asyncio.open_connection(target.hostname, target.port)
        away.write(struct.pack("!i", len(body) + 4) + body)
        await asyncio.gather(forward(reader, away), forward(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"postgresql://postgres@127.0.0.1:{port}{target.path}?sslmode=disable"
    finally:
        server.close()


async def test_dropped_settings_are_noticed_at_the_start(postgres_server: PostgresServer) -> None:
    dsn = postgres_server.create_database()
    async with pooler(dsn, keep_own) as address:
        with pytest.raises(ConfigError) as caught:
            await open_store(address)
    assert "do not reach the server" in str(caught.value)
    assert "idle_in_transaction_session_timeout" in str(caught.value)
    assert "Give the address of PostgreSQL itself" in str(caught.value)
    postgres_server.drop_database(dsn)


async def test_refused_settings_are_a_mistake_that_waiting_does_not_mend(postgres_server: PostgresServer) -> None:
    async with pooler(postgres_server.dsn(), refuse_others) as address:
        with pytest.raises(ConfigError, match=r"refuses the settings of connections .*give the address of PostgreSQL"):
            await open_store(address)


async def test_a_pooler_that_passes_settings_on_is_fine(postgres_server: PostgresServer) -> None:
    dsn = postgres_server.create_database()
    async with pooler(dsn, dict) as address:
        store = await open_store(address)
        await store.close()
    postgres_server.drop_database(dsn)


async def test_every_setting_has_an_effect_on_the_server(postgres_server: PostgresServer) -> None:
    engine = await PostgresEngine.connect(postgres_server.dsn())
    rows = await engine.read(lambda tx: tx.fetch("SHOW idle_in_transaction_session_timeout"))
    assert rows[0][0] == "2s"
    await engine.close()
    settings = session_settings("a test", 1_000)
    connection = await asyncpg.connect(postgres_server.dsn(), server_settings=settings)
    try:
        await check_settings(connection, {**settings, "application_name": "as the pooler calls it"})
        for name in settings.keys() - {"application_name"}:
            with pytest.raises(ConfigError, match=rf"\({name}\)"):
                await check_settings(connection, {**settings, name: "another"})
    finally:
        await connection.close()
