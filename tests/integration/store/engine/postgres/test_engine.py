"""The PostgreSQL engine: what the server does to it, and what it makes of that."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest

from crawlfleet.errors import InvariantBroken, NotLeader, OutcomeUnknown, StoreUnavailable
from crawlfleet.store import schema
from crawlfleet.store.engine.migrate import migrate_postgres
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.transaction import Tx
from testkit.patience import PATIENCE_S, promised
from testkit.servers import PostgresServer
from testkit.servers.server import free_port

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

QUEUE_COLUMNS = ("name", "is_paused", "changed_at")


@pytest.fixture
async def dsn(postgres_dsn: str) -> str:
    await migrate_postgres(postgres_dsn)
    return postgres_dsn


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[PostgresEngine]:
    engine = await PostgresEngine.connect(dsn)
    yield engine
    await engine.close()


def put(*names: str) -> Callable[[Tx], Awaitable[None]]:
    async def work(tx: Tx) -> None:
        await tx.insert(schema.queue, QUEUE_COLUMNS, [(name, 0, 0) for name in names])

    return work


def paused_as(name: str, is_paused: int) -> Callable[[Tx], Awaitable[int]]:
    return lambda tx: tx.execute("UPDATE queue SET is_paused = $2 WHERE name = $1", name, is_paused)


async def queues(dsn: str) -> set[str]:
    connection = await asyncpg.connect(dsn)
    try:
        return {row[0] for row in await connection.fetch("SELECT name FROM queue")}
    finally:
        await connection.close()


async def test_no_connection_of_ours_can_hold_up_the_cluster(engine: PostgresEngine) -> None:
    async def settings(tx: Tx) -> dict[str, str]:
        names = ["idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout", "synchronous_commit"]
        return {name: (await tx.fetch(f"SHOW {name}"))[0][0] for name in names}

    assert await engine.write(settings) == {
        "idle_in_transaction_session_timeout": "2s",
        "lock_timeout": "3s",
        "statement_timeout": "30s",
        "synchronous_commit": "on",
    }


async def test_what_the_database_refuses_is_our_own_fault(engine: PostgresEngine, dsn: str) -> None:
    with pytest.raises(InvariantBroken):
        await engine.write(put("a", "a"))
    with pytest.raises(InvariantBroken):
        await engine.read(lambda tx: tx.fetch("SELECT * FROM no_such_table"))
    assert await queues(dsn) == set()


async def test_a_deadlock_is_run_again(engine: PostgresEngine, dsn: str) -> None:
    await engine.write(put("a", "b"))
    has_one, tries = [asyncio.Event(), asyncio.Event()], [0, 0]

    def crosswise(mine: int, first: str, second: str) -> Callable[[Tx], Awaitable[None]]:
        async def work(tx: Tx) -> None:
            tries[mine] += 1
            await paused_as(first, 1)(tx)
            has_one[mine].set()
            await has_one[1 - mine].wait()
            await paused_as(second, 1)(tx)

        return work

    await asyncio.gather(engine.write(crosswise(0, "a", "b")), engine.write(crosswise(1, "b", "a")))
    assert min(tries) == 1
    assert max(tries) > 1


async def test_nobody_waits_long_for_a_lock(engine: PostgresEngine, dsn: str) -> None:
    await engine.write(put("a"))
    other = await asyncpg.connect(dsn)
    async with asyncio.timeout(PATIENCE_S), other.transaction():
        await other.execute("UPDATE queue SET is_paused = 1")
        with pytest.raises(StoreUnavailable):
            await engine.write(paused_as("a", 0))
    await other.close()
    assert await engine.write(paused_as("a", 0)) == 1


async def test_a_connection_that_dies_before_the_commit_leaves_nothing(engine: PostgresEngine, dsn: str) -> None:
    async def work(tx: Tx) -> None:
        await put("lost")(tx)
        await _terminate_others(dsn)
        await tx.fetch("SELECT 1")

    with pytest.raises(StoreUnavailable):
        await engine.write(work)
    assert await queues(dsn) == set()
    await engine.write(put("next"))
    assert await queues(dsn) == {"next"}


@pytest.mark.parametrize("ending", [NotLeader(3), asyncio.CancelledError()])
async def test_why_a_transaction_ended_is_told_though_its_connection_died(
    engine: PostgresEngine, dsn: str, ending: BaseException
) -> None:
    async def work(tx: Tx) -> None:
        ((pid,),) = await tx.fetch("SELECT pg_backend_pid()")
        other = await asyncpg.connect(dsn)
        await other.execute("SELECT pg_terminate_backend($1)", pid)
        await other.close()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)):
            while True:
                await tx.fetch("SELECT 1")
        raise ending

    with pytest.raises(type(ending)):
        await engine.write(work)


async def test_idle_connections_that_died_are_replaced(engine: PostgresEngine, dsn: str) -> None:
    for name in ("first", "second", "third"):
        await engine.write(put(name))
        await _terminate_others(dsn)
        await _until_answered(lambda: engine.read(lambda tx: tx.fetch("SELECT 1")))
    assert await queues(dsn) == {"first", "second", "third"}


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_commit_that_is_not_answered_has_an_unknown_outcome(dsn: str, is_sent: bool) -> None:
    """Whether it reached the server or not: nobody here can tell the two apart."""
    async with commit_cutter(dsn, is_sent=is_sent) as cut_dsn:
        engine = await PostgresEngine.connect(cut_dsn)
        with pytest.raises(OutcomeUnknown):
            await engine.write(put("perhaps"))
        await engine.close()
    assert await queues(dsn) == ({"perhaps"} if is_sent else set())


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        await PostgresEngine.connect(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres")


async def test_work_goes_on_after_the_server_came_back() -> None:
    with PostgresServer() as server:
        dsn = server.create_database()
        await migrate_postgres(dsn)
        engine = await PostgresEngine.connect(dsn)
        await engine.write(put("before"))
        await asyncio.to_thread(server.stop, "immediate")
        with pytest.raises(StoreUnavailable):
            await engine.write(put("meanwhile"))
        with pytest.raises(StoreUnavailable):
            await engine.read(lambda tx: tx.fetch("SELECT 1"))
        await asyncio.to_thread(server.start)
        await _until_answered(lambda: engine.read(lambda tx: tx.fetch("SELECT 1")))
        await engine.write(put("after"))
        assert await queues(dsn) == {"before", "after"}
        await engine.close()


async def _terminate_others(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    sql = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.fetch(sql)
    await connection.close()


async def _until_answered(ask: Callable[[], Awaitable[object]]) -> None:
    """A pool finds out one by one that its connections are gone."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await ask()
            except StoreUnavailable:
                continue
            return


@asynccontextmanager
async def commit_cutter(dsn: str, *, is_sent: bool) -> AsyncIterator[str]:
    """The way to a server, cut at the first COMMIT: just after it was passed on, or just before."""
    target = urlsplit(dsn)
    streams: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(target.hostname, target.port)
        streams.extend((writer, up_writer))
        down = asyncio.create_task(_pass_on(up_reader, writer))
        while (chunk := await reader.read(65_536)) and b"COMMIT" not in chunk:
            up_writer.write(chunk)
        down.cancel()
        await asyncio.gather(down, return_exceptions=True)
        if chunk and is_sent:
            up_writer.write(chunk)
            # The server answers when it has committed; nobody hears it.
            await up_reader.read(65_536)
        writer.close()
        up_writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"postgresql://postgres@{host}:{port}{target.path}"
    finally:
        server.close()
        for stream in streams:
            stream.close()
            await asyncio.gather(stream.wait_closed(), return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)


async def _until_asleep(dsn: str, count: int) -> None:
    """Until the server is at so many calls that only sleep."""
    connection = await asyncpg.connect(dsn)
    sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    async with asyncio.timeout(PATIENCE_S):
        while await connection.fetchval(sql) < count:  # noqa: ASYNC110 - a server tells nobody
            await asyncio.sleep(0.02)
    await connection.close()


async def test_whoever_is_cancelled_leaves_at_once_though_the_server_hangs() -> None:
    with PostgresServer(fsync=False) as server:
        dsn = server.create_database()
        engine = await PostgresEngine.connect(dsn, connections=2)
        calls = [
            asyncio.create_task(engine.read(lambda tx: tx.fetch("SELECT pg_sleep(60)"))),
            asyncio.create_task(engine.write(lambda tx: tx.fetch("SELECT pg_sleep(60)"))),
        ]
        await _until_asleep(dsn, len(calls))
        await asyncio.to_thread(server.pause)
        try:
            for call in calls:
                call.cancel()
            _, pending = await asyncio.wait(calls, timeout=promised(2))
            assert not pending
            assert all(call.cancelled() for call in calls)
        finally:
            await asyncio.to_thread(server.resume)
        assert await engine.read(lambda tx: tx.fetch("SELECT 1")) == [(1,)]
        await engine.close()
