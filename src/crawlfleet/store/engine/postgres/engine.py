"""Transactions on PostgreSQL.

A connection that freezes inside a transaction must not hold up the cluster: the server ends it after two seconds of
silence, and nobody waits longer than that for a lock. What the server aborted for a deadlock is simply run again.

One case the server does not see: a client that freezes in the middle of a COPY, or while it is sent an answer. It is
not idle, and the server does not heed the limit of a statement while it waits for a client. So a transaction that had
to wait too long for a lock ends the connections that wait for their clients and hold locks, and is run again.

Whether a transaction whose COMMIT was not answered took effect is not known here: that is OutcomeUnknown, and the
caller reads again before deciding.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from sqlalchemy import Select
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect

from crawlfleet.errors import InvariantBroken, NotLeader, OutcomeUnknown, ReadTooLong, StoreUnavailable
from crawlfleet.model.instants import Instant
from crawlfleet.store.engine.postgres.transaction import PostgresTx, render
from crawlfleet.store.engine.sqlalchemy_query import BROWSE_S, BROWSERS, PAGE_BYTES, RowPage, Sift, compiled
from crawlfleet.store.engine.transaction import LEADER_CHECK, Row, Tx

if TYPE_CHECKING:
    from crawlfleet.store.engine.postgres.transaction import Connection

    Pool = asyncpg.Pool[asyncpg.Record]

T = TypeVar("T")

IDLE_IN_TRANSACTION_MS = 2_000
LOCK_TIMEOUT_MS = 3_000
STATEMENT_TIMEOUT_MS = 30_000
PATIENCE_S = 8.0
"""For a transaction as a whole, the wait for a connection included: a server that hangs answers nobody, and whoever
asked should hear so. Batches are bounded, and take a small part of it."""
BROWSE_GRACE_S = 2.0
"""Beyond the deadline of a read for people, for a server that does not even end it."""
CONNECT_S = 5.0
"""A server that takes no connection by then is away."""
_TRIES = 5
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
# The internal error is what the driver says of a connection that died under it at the wrong moment.
_AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.CannotConnectNowError,
    OSError,
    TimeoutError,
)
_DIALECT = asyncpg_dialect()  # type: ignore[no-untyped-call]
_BEGIN = "BEGIN"
_LEADER_CHECK = render(LEADER_CHECK)
_ONE_ROW = "SELECT 1"
_APPLICATION = "crawlfleet"
# A transaction id is what a connection has that locked or wrote something: those who only read are left alone.
_END_SILENT = f"""
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = '{_APPLICATION}'
  AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL AND wait_event_type = 'Client'
  AND state_change < clock_timestamp() - interval '{IDLE_IN_TRANSACTION_MS} ms'
"""


class PostgresEngine:
    def __init__(self, pool: Pool, browsers: Pool, browse_s: float) -> None:
        self._pool = pool
        self._browse_s = browse_s
        self._browsers = browsers
        """Few, and apart from those that the loops and the nodes wait for."""

    @classmethod
    async def connect(cls, dsn: str, *, connections: int = 8, browse_s: float = BROWSE_S) -> PostgresEngine:
        pool = await cls._make_pool(dsn, _APPLICATION, connections, STATEMENT_TIMEOUT_MS)
        browsers = await cls._make_pool(dsn, "crawlfleet browse", BROWSERS, int(browse_s * 1000))
        try:
            async with pool.acquire():
                return cls(pool, browsers, browse_s)
        except _AWAY as exc:
            raise StoreUnavailable(f"PostgreSQL: {exc}") from exc

    @staticmethod
    async def _make_pool(dsn: str, name: str, connections: int, statement_timeout_ms: int) -> Pool:
        try:
            return await asyncpg.create_pool(
                # None is kept for its own sake: the pool would try for it, in its own words, while the server is away.
                dsn,
                min_size=0,
                max_size=connections,
                reset=_nothing_to_reset,
                timeout=CONNECT_S,
                command_timeout=statement_timeout_ms / 1000 + BROWSE_GRACE_S,
                server_settings={
                    "application_name": name,
                    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
                    "lock_timeout": str(LOCK_TIMEOUT_MS),
                    "statement_timeout": str(statement_timeout_ms),
                    # Hot tables churn: a plan made while one was nearly empty, and kept, would read all of it when
                    # it is full. Planning anew looks at its size of the moment, and costs a batch next to nothing.
                    "plan_cache_mode": "force_custom_plan",
                    "enable_seqscan": "off",
                    # A bitmap would gather a whole lane and sort it, where the index has its head in order.
                    "enable_bitmapscan": "off",
                    "jit": "off",
                },
            )
        except _AWAY as exc:
            raise StoreUnavailable(f"PostgreSQL: {exc}") from exc

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        for tried in range(1, _TRIES + 1):
            try:
                return await self._transaction(work, term)
            except _AGAIN as exc:
                if tried == _TRIES:
                    raise StoreUnavailable(f"PostgreSQL: {exc}") from exc
            except StoreUnavailable as exc:
                is_locked = isinstance(exc.__cause__, asyncpg.LockNotAvailableError)
                # Once: a second wait of that length would be too long for the caller.
                if not is_locked or tried > 1 or not await self._end_silent():
                    raise
        raise InvariantBroken("unreachable")

    async def _end_silent(self) -> bool:
        """End connections of clients that froze with locks; whether there were any."""
        rows = await self.read(lambda tx: tx.fetch(_END_SILENT))
        return bool(rows[0][0])

    async def _transaction(self, work: Callable[[Tx], Awaitable[T]], term: int | None) -> T:
        is_committing = False
        try:
            async with asyncio.timeout(PATIENCE_S), self._pool.acquire() as connection, _LeftAtOnce(connection):
                try:
                    # Not by the driver's own transactions: a term is checked on the same way.
                    begun = await connection.execute(_BEGIN if term is None else _begin_as_leader(term))
                    if term is not None and begun != _ONE_ROW:
                        raise NotLeader(term)
                    tx = PostgresTx(connection)
                    outcome = await work(tx)
                    await tx.flush()
                except TimeoutError:
                    raise
                except Exception:
                    await _roll_back(connection)
                    raise
                is_committing = True
                await connection.execute("COMMIT")
                is_committing = False
                return outcome
        except _AWAY as exc:
            if is_committing:
                raise OutcomeUnknown(f"PostgreSQL did not answer a commit: {_said(exc)}") from exc
            if isinstance(exc, asyncpg.DiskFullError):
                raise StoreUnavailable(f"PostgreSQL: {exc}", told="the disk of the store is full") from exc
            raise StoreUnavailable(f"PostgreSQL: {_said(exc)}") from exc
        except asyncpg.PostgresError as exc:
            if isinstance(exc, _AGAIN):
                raise
            raise InvariantBroken(f"PostgreSQL: {exc}") from exc

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(PATIENCE_S), self._pool.acquire() as connection, _LeftAtOnce(connection):
                return await work(PostgresTx(connection))
        except _AWAY as exc:
            raise StoreUnavailable(f"PostgreSQL: {_said(exc)}") from exc
        except asyncpg.PostgresError as exc:
            raise InvariantBroken(f"PostgreSQL: {exc}") from exc

    glance = read

    async def browse(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        try:
            async with self._browsing() as connection:
                return await work(PostgresTx(connection))
        except (asyncpg.QueryCanceledError, TimeoutError) as exc:
            raise ReadTooLong(f"PostgreSQL: {_said(exc)}") from exc
        except _AWAY as exc:
            raise StoreUnavailable(f"PostgreSQL: {_said(exc)}") from exc
        except asyncpg.PostgresError as exc:
            raise InvariantBroken(f"PostgreSQL: {exc}") from exc

    @contextlib.asynccontextmanager
    async def _browsing(self) -> AsyncIterator[Connection]:
        async with (
            asyncio.timeout(self._browse_s + BROWSE_GRACE_S),
            self._browsers.acquire() as connection,
            _LeftAtOnce(connection),
        ):
            yield connection

    async def query(self, query: Select[Any]) -> Sequence[Row]:
        sql, args = compiled(query, _DIALECT)
        return await self.browse(lambda tx: tx.fetch(sql, *args))

    async def page(
        self, query: Select[Any], limit: int, *, max_bytes: int = PAGE_BYTES, sift: Sift | None = None
    ) -> RowPage:
        sql, args = compiled(query, _DIALECT)
        page = RowPage(limit, max_bytes, sift)

        async def fill(tx: Tx) -> RowPage:
            assert isinstance(tx, PostgresTx)
            async with contextlib.aclosing(tx.rows(sql, args)) as rows:
                async for row in rows:
                    if not page.add(row):
                        break
            return page

        return await self.browse(fill)

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


def _said(exc: BaseException) -> str:
    return str(exc) or "no answer in time"


async def _nothing_to_reset(_connection: object) -> None:
    """Nothing here outlives its transaction: no session lock, no listener, no setting. It saves a round trip each."""


def _begin_as_leader(term: int) -> str:
    return f"{_BEGIN}; {_LEADER_CHECK.replace('$1', str(int(term)))}"


class _LeftAtOnce:
    """Whoever is cancelled, or has waited too long, leaves at once. The driver would ask the server to cancel, and wait
    for as long as that takes; a server that hangs takes for ever. A connection that ends is a rollback as well."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and (kind is TimeoutError or not issubclass(kind, Exception)):
            _throw_away(self._connection)


async def _roll_back(connection: Connection) -> None:
    """Undo; a connection that cannot even do that is thrown away, which undoes it too."""
    try:
        await connection.execute("ROLLBACK")
    except (*_AWAY, asyncpg.PostgresError):
        _throw_away(connection)


def _throw_away(connection: Connection) -> None:
    try:
        connection.terminate()
    except asyncpg.InterfaceError:
        pass  # it died, and the pool has taken it back: what the caller is told must not be this
