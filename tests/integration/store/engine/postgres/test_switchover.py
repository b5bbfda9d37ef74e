"""After a switchover: writes are refused as unavailable, and connections find the server that takes writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import asyncpg
import pytest
from structlog.testing import capture_logs

from crawlfleet.bootstrap.stores import open_store
from crawlfleet.errors import InvariantBroken, StoreUnavailable
from crawlfleet.store.engine.postgres.address import normalise_address
from crawlfleet.store.engine.postgres.engine import RENEW_EVERY_S, PostgresEngine
from crawlfleet.store.engine.postgres.server_errors import AGAIN, AWAY, READ_ONLY
from crawlfleet.store.engine.transaction import Tx
from testkit.patience import PATIENCE_S
from testkit.servers.postgres import PostgresServer, PostgresStandby

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

PORT = "SELECT inet_server_port()"


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False) as server:
        yield server


@pytest.fixture
async def engine(primary: PostgresServer) -> AsyncIterator[PostgresEngine]:
    engine = await PostgresEngine.connect(primary.dsn())
    await engine.write(lambda tx: tx.fetch("CREATE TABLE written (number integer)"))
    yield engine
    await engine.close()


@pytest.fixture
async def shared_engine(postgres_server: PostgresServer) -> AsyncIterator[PostgresEngine]:
    engine = await PostgresEngine.connect(postgres_server.dsn())
    yield engine
    await engine.close()


async def add_row(engine: PostgresEngine) -> int:
    """Write a row; return the port of the server that took it."""

    async def work(tx: Tx) -> int:
        await tx.execute("INSERT INTO written VALUES (1)")
        return int((await tx.fetch(PORT))[0][0])

    return await engine.write(work)


async def until_written(engine: PostgresEngine) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await add_row(engine)
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def until_read_only(engine: PostgresEngine) -> StoreUnavailable:
    """Write until the server's new setting has reached the connection, and return the error."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await add_row(engine)
            except StoreUnavailable as exc:
                return exc


async def has_changed(connection: asyncpg.Connection[asyncpg.Record], query: str, before: object) -> bool:
    return await connection.fetchval(query) not in (before, None)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.05)


async def backend_pid(engine: PostgresEngine) -> int:
    return int((await engine.read(lambda tx: tx.fetch("SELECT pg_backend_pid()")))[0][0])


async def test_a_read_only_server_is_unavailable_and_connections_are_renewed(
    primary: PostgresServer, engine: PostgresEngine
) -> None:
    switched: list[bool] = []
    engine._on_switchover = lambda: switched.append(True)
    before = await backend_pid(engine)
    await asyncio.to_thread(primary.set_read_only, True)
    with capture_logs() as lines:
        error = await until_read_only(engine)
    assert error.told == READ_ONLY
    assert isinstance(error.__cause__, asyncpg.ReadOnlySQLTransactionError)
    assert [line["event"] for line in lines] == ["store_read_only"]
    assert switched == [True]
    # Reads go on, on a new connection.
    assert await backend_pid(engine) != before
    await asyncio.to_thread(primary.set_read_only, False)
    await until_written(engine)


async def test_connections_are_not_renewed_for_each_failed_write(
    primary: PostgresServer, engine: PostgresEngine
) -> None:
    await asyncio.to_thread(primary.set_read_only, True)
    await until_read_only(engine)
    loop = asyncio.get_running_loop()
    began, pids = loop.time(), set()
    for _ in range(20):
        with pytest.raises(StoreUnavailable):
            await add_row(engine)
        pids.add(await backend_pid(engine))
    # The renewal before the loop, and one for each second that the loop took.
    assert len(pids) <= 2 + (loop.time() - began) / RENEW_EVERY_S


def many_hosts(*servers: PostgresServer) -> str:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/postgres"


async def test_writes_go_on_at_the_promoted_standby(primary: PostgresServer, engine: PostgresEngine) -> None:
    with await asyncio.to_thread(PostgresStandby, primary) as standby:
        # The standby is named first: it answers, and takes no writes yet.
        store = await PostgresEngine.connect(normalise_address(many_hosts(standby, primary)))
        try:
            assert await add_row(store) == primary.port
            # The old primary goes on and keeps its connections, as one behind a virtual address does.
            await asyncio.to_thread(primary.set_read_only, True)
            assert (await until_read_only(store)).told == READ_ONLY
            await asyncio.to_thread(standby.promote)
            await asyncio.to_thread(standby.set_read_only, False)
            assert await until_written(store) == standby.port
            # Nothing goes back when the old primary is there again.
            await asyncio.to_thread(primary.kill)
            assert await add_row(store) == standby.port
        finally:
            await store.close()


async def test_a_killed_primary_is_replaced(primary: PostgresServer, engine: PostgresEngine) -> None:
    with await asyncio.to_thread(PostgresStandby, primary) as standby:
        store = await PostgresEngine.connect(normalise_address(many_hosts(primary, standby)))
        try:
            assert await add_row(store) == primary.port
            await asyncio.to_thread(primary.kill)
            with pytest.raises(StoreUnavailable):
                await add_row(store)
            await asyncio.to_thread(standby.promote)
            assert await until_written(store) == standby.port
        finally:
            await store.close()


async def test_a_master_does_not_start_on_a_standby_alone(primary: PostgresServer, engine: PostgresEngine) -> None:
    """Neither with its address alone nor with several addresses of which none takes writes."""
    with await asyncio.to_thread(PostgresStandby, primary) as standby:
        for address in (standby.dsn(), many_hosts(standby, standby)):
            with pytest.raises(StoreUnavailable):
                store = await open_store(address)
                try:
                    await store.register_master("m0", 0)
                finally:
                    await store.close()


async def test_the_lock_is_taken_again_on_a_new_connection(primary: PostgresServer) -> None:
    address = primary.create_database()
    store = await open_store(address)
    try:
        held = (
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        connection = await asyncpg.connect(address)
        before = await connection.fetchval(held)
        await asyncio.to_thread(primary.set_read_only, True)
        with pytest.raises(StoreUnavailable):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    await store.register_master("m0", 0)
        await until(lambda: has_changed(connection, held, before))
        await connection.close()
    finally:
        await store.close()


@pytest.mark.parametrize(
    "state",
    [
        "08000",
        "08003",
        "08006",
        "08P01",
        "25006",
        "25P03",
        "25P04",
        "28000",
        "28P01",
        "3D000",
        "53000",
        "53100",
        "53200",
        "53300",
        "53400",
        "55P03",
        "57000",
        "57014",
        "57P01",
        "57P02",
        "57P03",
        "57P04",
        "57P05",
        "58000",
        "58030",
    ],
)
async def test_each_state_of_an_unavailable_server(shared_engine: PostgresEngine, state: str) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'as after a fault' USING ERRCODE = '{state}'; END $$"
    for call in (shared_engine.write, shared_engine.read):
        with pytest.raises(StoreUnavailable) as caught:
            await call(lambda tx: tx.fetch(raising))
        assert getattr(caught.value.__cause__, "sqlstate", None) == state
        assert isinstance(caught.value.__cause__, AWAY)


@pytest.mark.parametrize("state", ["40001", "40P01"])
async def test_each_state_of_an_aborted_transaction(shared_engine: PostgresEngine, state: str) -> None:
    tries = []

    async def work(tx: Tx) -> None:
        tries.append(1)
        if len(tries) < 3:
            await tx.fetch(f"DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '{state}'; END $$")

    await shared_engine.write(work)
    assert len(tries) == 3
    with pytest.raises(StoreUnavailable) as caught:
        await shared_engine.write(lambda tx: tx.fetch(f"DO $$ BEGIN RAISE '' USING ERRCODE = '{state}'; END $$"))
    assert isinstance(caught.value.__cause__, AGAIN)


@pytest.mark.parametrize(
    "statement",
    ["SELECT nothing_of_the_kind", "SELECT 1/0", "DO $$ BEGIN RAISE '' USING ERRCODE = '22023'; END $$"],
)
async def test_an_error_of_our_own_stays_an_error(shared_engine: PostgresEngine, statement: str) -> None:
    with pytest.raises(InvariantBroken):
        await shared_engine.write(lambda tx: tx.fetch(statement))
