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
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from sqlalchemy import Select
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect

from crawlfleet.errors import InvariantBroken, NotLeader, OutcomeUnknown, StoreUnavailable
from crawlfleet.store.postgres.tx import PostgresTx, render
from crawlfleet.store.query import compiled
from crawlfleet.store.tx import LEADER_CHECK, Row, Tx

if TYPE_CHECKING:
    from crawlfleet.store.postgres.tx import Connection

    Pool = asyncpg.Pool[asyncpg.Record]

T = TypeVar("T")

IDLE_IN_TRANSACTION_MS = 2_000
LOCK_TIMEOUT_MS = 3_000
STATEMENT_TIMEOUT_MS = 30_000
PATIENCE_S = 8.0
"""For a transaction as a whole, the wait for a connection included: a server that hangs answers nobody, and whoever
asked should hear so. Batches are bounded, and take a small part of it."""
LONG_READ_PATIENCE_S = STATEMENT_TIMEOUT_MS / 1000 + 5
"""For what people search."""
CONNECT_S = 5.0
"""A server that takes no connection by then is away."""
_TRIES = 5
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
# The internal error is what the driver says of a connection that died under it at the wrong moment.
_AWAY = (
    asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError, asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError, asyncpg.IdleInTransactionSessionTimeoutError, asyncpg.CannotConnectNowError, OSError,
    TimeoutError,
)  # fmt: skip
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
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @classmethod
    async def connect(cls, dsn: str, *, connections: int = 8) -> PostgresEngine:
        try:
            pool = await asyncpg.create_pool(
                # None is kept for its own sake: the pool would try for it, in its own words, while the server is away.
                dsn, min_size=0, max_size=connections, reset=_nothing_to_reset, timeout=CONNECT_S,
                command_timeout=LONG_READ_PATIENCE_S,
                server_settings={
                    "application_name": _APPLICATION,
                    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
                    "lock_timeout": str(LOCK_TIMEOUT_MS),
                    "statement_timeout": str(STATEMENT_TIMEOUT_MS),
                    # Hot tables churn: a plan made while one was nearly empty, and kept, would read all of it when
                    # it is full. Planning anew looks at its size of the moment, and costs a batch next to nothing.
                    "plan_cache_mode": "force_custom_plan",
                    "enable_seqscan": "off",
                    # A bitmap would gather a whole lane and sort it, where the index has its head in order.
                    "enable_bitmapscan": "off",
                    "jit": "off",
                },
            )  # fmt: skip
            async with pool.acquire():
                return cls(pool)
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

    async def read(self, work: Callable[[Tx], Awaitable[T]], *, patience_s: float = PATIENCE_S) -> T:
        try:
            async with asyncio.timeout(patience_s), self._pool.acquire() as connection, _LeftAtOnce(connection):
                return await work(PostgresTx(connection))
        except _AWAY as exc:
            raise StoreUnavailable(f"PostgreSQL: {_said(exc)}") from exc
        except asyncpg.PostgresError as exc:
            raise InvariantBroken(f"PostgreSQL: {exc}") from exc

    glance = read

    async def query(self, query: Select[Any]) -> Sequence[Row]:
        sql, args = compiled(query, _DIALECT)
        return await self.read(lambda tx: tx.fetch(sql, *args), patience_s=LONG_READ_PATIENCE_S)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(5):
                await self._pool.close()
        except TimeoutError:
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
