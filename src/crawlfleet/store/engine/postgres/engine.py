"""The PostgreSQL engine: transactions and reads on connection pools.

A connection that freezes inside a transaction must not hold up the cluster: the server ends it after two seconds of
silence, and no transaction waits longer than three seconds for a lock. What the server aborted for a deadlock is run
again.

One case the server does not detect: a client that freezes in the middle of a COPY, or while an answer is sent to it.
It is not idle, and the server does not apply the statement timeout while it waits for a client. So a transaction that
had to wait too long for a lock ends the connections that wait for their clients and hold locks, and is run again.

After a switchover connections may lead to a server that takes no writes any more. That is StoreUnavailable as well, and
all connections are opened anew: with several hosts in the address they find the one that takes writes.

Whether a transaction whose COMMIT was not answered took effect is not known here: that is OutcomeUnknown, and the
caller reads again before deciding.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
import structlog
from sqlalchemy import Select
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect

from crawlfleet.errors import InvariantBroken, NotLeader, OutcomeUnknown, ReadTooLong, StoreUnavailable
from crawlfleet.model.instants import Instant
from crawlfleet.store.engine.postgres.server_errors import AGAIN, AWAY, error_text, store_unavailable
from crawlfleet.store.engine.postgres.session_settings import (
    IDLE_IN_TRANSACTION_MS,
    check_settings,
    session_settings,
)
from crawlfleet.store.engine.postgres.transaction import PostgresTx, render_sql
from crawlfleet.store.engine.sqlalchemy_query import BROWSE_S, BROWSERS, PAGE_BYTES, RowPage, Sift, compile_query
from crawlfleet.store.engine.transaction import LEADER_CHECK, Row, Tx

if TYPE_CHECKING:
    from crawlfleet.store.engine.postgres.transaction import Connection

    Pool = asyncpg.Pool[asyncpg.Record]

T = TypeVar("T")

log = structlog.get_logger()

STATEMENT_TIMEOUT_MS = 30_000
PATIENCE_S = 8.0
"""Timeout for a transaction as a whole, including the wait for a connection: a server that hangs answers no one, and
the caller should get an error. Batches are bounded, and take a small part of it."""
BROWSE_GRACE_S = 2.0
"""Grace after the deadline of a read for people, for a server that does not even cancel it."""
CONNECT_S = 5.0
"""Timeout for a new connection; a server that accepts none by then is away."""
RENEW_EVERY_S = 1.0
"""Minimum time between two renewals of all connections while the server is read-only."""
_TRIES = 5
_DIALECT = asyncpg_dialect()  # type: ignore[no-untyped-call]
_BEGIN = "BEGIN"
_LEADER_CHECK = render_sql(LEADER_CHECK)
_ONE_ROW = "SELECT 1"
_APPLICATION = "crawlfleet"
# A connection that locked or wrote something has a transaction id: connections that only read are left alone.
_END_SILENT = f"""
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = '{_APPLICATION}'
  AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL AND wait_event_type = 'Client'
  AND state_change < clock_timestamp() - interval '{IDLE_IN_TRANSACTION_MS} ms'
"""


class PostgresEngine:
    def __init__(
        self, pool: Pool, browsers: Pool, browse_s: float, on_switchover: Callable[[], None] | None = None
    ) -> None:
        self._pool = pool
        self._browse_s = browse_s
        self._browsers = browsers
        """Pool of a few connections, separate from those that the loops and the nodes wait for."""
        self._on_switchover = on_switchover
        self._renewed_at = float("-inf")

    @classmethod
    async def connect(
        cls,
        dsn: str,
        *,
        connections: int = 8,
        browse_s: float = BROWSE_S,
        on_switchover: Callable[[], None] | None = None,
    ) -> PostgresEngine:
        """Connect. `on_switchover` is called when the server has become read-only, for connections of other owners.
        Raises StoreUnavailable, or ConfigError when the settings of our connections do not reach the server."""
        pool = await cls._make_pool(dsn, _APPLICATION, connections, STATEMENT_TIMEOUT_MS)
        browsers = await cls._make_pool(dsn, "crawlfleet browse", BROWSERS, int(browse_s * 1000))
        try:
            async with pool.acquire() as connection:
                await check_settings(connection, session_settings(_APPLICATION, STATEMENT_TIMEOUT_MS))
            return cls(pool, browsers, browse_s, on_switchover)
        except BaseException as exc:
            pool.terminate()
            browsers.terminate()
            if isinstance(exc, AWAY):
                raise StoreUnavailable(f"PostgreSQL: {error_text(exc)}") from exc
            raise

    @staticmethod
    async def _make_pool(dsn: str, name: str, connections: int, statement_timeout_ms: int) -> Pool:
        try:
            return await asyncpg.create_pool(
                # No idle connection is kept: the pool would try to open one, and fail with errors of its own, while
                # the server is away.
                dsn,
                min_size=0,
                max_size=connections,
                reset=_nothing_to_reset,
                timeout=CONNECT_S,
                command_timeout=statement_timeout_ms / 1000 + BROWSE_GRACE_S,
                server_settings=session_settings(name, statement_timeout_ms),
            )
        except AWAY as exc:
            raise StoreUnavailable(f"PostgreSQL: {error_text(exc)}") from exc

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        for tried in range(1, _TRIES + 1):
            try:
                return await self._run_transaction(work, term)
            except AGAIN as exc:
                if tried == _TRIES:
                    raise StoreUnavailable(f"PostgreSQL: {exc}") from exc
            except StoreUnavailable as exc:
                is_locked = isinstance(exc.__cause__, asyncpg.LockNotAvailableError)
                # Only once: a second wait of that length would be too long for the caller.
                if not is_locked or tried > 1 or not await self._end_silent_clients():
                    raise
        raise InvariantBroken("unreachable")

    async def _end_silent_clients(self) -> bool:
        """End the connections of clients that froze while they held locks; return whether there were any."""
        rows = await self.read(lambda tx: tx.fetch(_END_SILENT))
        return bool(rows[0][0])

    async def _run_transaction(self, work: Callable[[Tx], Awaitable[T]], term: int | None) -> T:
        is_committing = False
        try:
            async with asyncio.timeout(PATIENCE_S), self._pool.acquire() as connection, _LeftAtOnce(connection):
                try:
                    # Not with the driver's own transactions: the leader's term is checked in the same round trip.
                    begun = await connection.execute(_BEGIN if term is None else _begin_as_leader(term))
                    if term is not None and begun != _ONE_ROW:
                        raise NotLeader(term)
                    tx = PostgresTx(connection)
                    outcome = await work(tx)
                    await tx.flush_inserts()
                except TimeoutError:
                    raise
                except Exception:
                    await _roll_back(connection)
                    raise
                is_committing = True
                await connection.execute("COMMIT")
                is_committing = False
                return outcome
        except AWAY as exc:
            if is_committing:
                raise OutcomeUnknown(f"PostgreSQL did not answer a commit: {error_text(exc)}") from exc
            await self._renew_after_switchover(exc)
            raise store_unavailable(exc) from exc
        except asyncpg.PostgresError as exc:
            if isinstance(exc, AGAIN):
                raise
            raise InvariantBroken(f"PostgreSQL: {exc}") from exc

    async def _renew_after_switchover(self, exc: BaseException) -> None:
        """Have every connection opened anew when the server has become read-only: the address may lead to another
        server by now. Not for each failed write: the server may stay read-only for long."""
        now = asyncio.get_running_loop().time()
        if not isinstance(exc, asyncpg.ReadOnlySQLTransactionError) or now - self._renewed_at < RENEW_EVERY_S:
            return
        self._renewed_at = now
        log.warning("store_read_only", error=str(exc), hint="connections are opened anew")
        await self._pool.expire_connections()
        await self._browsers.expire_connections()
        if self._on_switchover is not None:
            self._on_switchover()

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(PATIENCE_S), self._pool.acquire() as connection, _LeftAtOnce(connection):
                return await work(PostgresTx(connection))
        except AWAY as exc:
            raise store_unavailable(exc) from exc
        except asyncpg.PostgresError as exc:
            raise InvariantBroken(f"PostgreSQL: {exc}") from exc

    read_by_key = read

    async def browse_rows(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            async with self._browse_connection() as connection:
                return await work(PostgresTx(connection))
        except (asyncpg.QueryCanceledError, TimeoutError) as exc:
            raise ReadTooLong(f"PostgreSQL: {error_text(exc)}") from exc
        except AWAY as exc:
            raise store_unavailable(exc) from exc
        except asyncpg.PostgresError as exc:
            raise InvariantBroken(f"PostgreSQL: {exc}") from exc

    @contextlib.asynccontextmanager
    async def _browse_connection(self) -> AsyncIterator[Connection]:
        async with (
            asyncio.timeout(self._browse_s + BROWSE_GRACE_S),
            self._browsers.acquire() as connection,
            _LeftAtOnce(connection),
        ):
            yield connection

    async def run_query(self, query: Select[Any]) -> Sequence[Row]:
        sql, args = compile_query(query, _DIALECT)
        return await self.browse_rows(lambda tx: tx.fetch(sql, *args))

    async def read_page(
        self, query: Select[Any], limit: int, *, max_bytes: int = PAGE_BYTES, sift: Sift | None = None
    ) -> RowPage:
        sql, args = compile_query(query, _DIALECT)
        page = RowPage(limit, max_bytes, sift)

        async def fill_page(tx: Tx) -> RowPage:
            assert isinstance(tx, PostgresTx)
            async with contextlib.aclosing(tx.iterate_rows(sql, args)) as rows:
                async for row in rows:
                    if not page.add_row(row):
                        break
            return page

        return await self.browse_rows(fill_page)

    async def wall_clock(self) -> Instant | None:
        rows = await self.read(lambda tx: tx.fetch("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))
        return int(rows[0][0])

    async def close(self) -> None:
        try:
            async with asyncio.timeout(5):
                await self._browsers.close()
                await self._pool.close()
        except TimeoutError:
            self._browsers.terminate()
            self._pool.terminate()


async def _nothing_to_reset(_connection: object) -> None:
    """Reset nothing: no session lock, listener or setting outlives its transaction. This saves a round trip each
    time."""


def _begin_as_leader(term: int) -> str:
    return f"{_BEGIN}; {_LEADER_CHECK.replace('$1', str(int(term)))}"


class _LeftAtOnce:
    """Context that terminates the connection when the caller is cancelled or times out, without waiting. The driver
    would ask the server to cancel, and wait for as long as that takes; a server that hangs takes for ever. The end of
    a connection is a rollback as well."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and (kind is TimeoutError or not issubclass(kind, Exception)):
            _throw_away(self._connection)


async def _roll_back(connection: Connection) -> None:
    """Roll back; a connection that cannot even do that is terminated, which rolls back too."""
    try:
        await connection.execute("ROLLBACK")
    except (*AWAY, asyncpg.PostgresError):
        _throw_away(connection)


def _throw_away(connection: Connection) -> None:
    try:
        connection.terminate()
    except asyncpg.InterfaceError:
        pass  # it died, and the pool has taken it back: the caller must not get this error instead of the first one
