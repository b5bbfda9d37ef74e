"""The errors of PostgreSQL and of its driver, by what they mean for a caller.

`AGAIN`: the server aborted the transaction, and it can be run again. `AWAY`: the server cannot do it now; nothing was
written, unless it was the commit that failed, and a later try may succeed. Every other error of the server is a bug.
"""

from __future__ import annotations

import asyncpg

from crawlfleet.errors import StoreUnavailable

AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
AWAY = (
    asyncpg.PostgresConnectionError,  # class 08
    asyncpg.ReadOnlySQLTransactionError,  # 25006: a standby, also one that was the primary until a switchover
    asyncpg.IdleInTransactionSessionTimeoutError,  # 25P03
    asyncpg.TransactionTimeoutError,  # 25P04
    # The rights and the database were right at the start: now a password has changed, or a server lacks its copy yet.
    asyncpg.InvalidAuthorizationSpecificationError,  # class 28
    asyncpg.InvalidCatalogNameError,  # 3D000
    asyncpg.InsufficientResourcesError,  # class 53: too many connections, out of memory, disk full
    asyncpg.LockNotAvailableError,  # 55P03
    asyncpg.OperatorInterventionError,  # class 57: cancelled, shutting down, starting, in recovery
    asyncpg.PostgresSystemError,  # class 58: the machine of the server failed to read or write
    asyncpg.InterfaceError,
    # The driver raises it for a connection that died while it was in use, and where no host of the address takes
    # writes.
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
IS_READ_ONLY = (
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.exceptions.TargetServerAttributeNotMatched,  # all hosts of the address answer, and none takes writes
)
READ_ONLY = "the store takes no writes now: its server is read-only, as after a switchover"


def store_unavailable(exc: BaseException) -> StoreUnavailable:
    """Return the error for the caller of a transaction that an error of `AWAY` ended."""
    detail = f"PostgreSQL: {error_text(exc)}"
    if isinstance(exc, asyncpg.DiskFullError):
        return StoreUnavailable(detail, told="the disk of the store is full")
    if isinstance(exc, IS_READ_ONLY):
        return StoreUnavailable(detail, told=READ_ONLY)
    return StoreUnavailable(detail)


def error_text(exc: BaseException) -> str:
    return str(exc) or "no answer in time"
