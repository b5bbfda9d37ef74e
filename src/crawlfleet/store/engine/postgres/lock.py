"""The advisory lock that allows one master on a database without a broker, or many masters with one.

It is an exclusive or a shared lock, on a connection of its own. A master that died holds nothing: the server releases
the lock when the connection ends, also that of a machine which went away without closing it. If it was the server that
was away, the lock is taken again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import structlog

from crawlfleet.errors import ConfigError, StoreInUse, StoreUnavailable
from crawlfleet.store.engine.postgres.address import find_mistake

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

log = structlog.get_logger()

TRIES, AGAIN_S = 15, 0.1
"""Number of attempts and the pause between them: a master that was just stopped may still be shutting down."""
RETAKE_S = 1.0
CONNECT_S = 5.0
_KEY = 0x63726177_6D617374
_KEEPALIVE = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}
_AWAY = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError, ValueError)


class DatabaseLock:
    def __init__(self, dsn: str, *, is_shared: bool = False) -> None:
        self._dsn = dsn
        self._is_shared = is_shared
        self._connection: Connection | None = None
        self._retaking: asyncio.Task[None] | None = None

    async def acquire(self) -> None:
        """Take the lock. Raises StoreInUse when another master has it."""
        try:
            for _ in range(TRIES):
                if await self._try_acquire():
                    return
                await asyncio.sleep(AGAIN_S)
        except _AWAY as exc:
            self.release()
            if (mistake := find_mistake(exc)) is not None:
                raise ConfigError(f"store: {mistake}") from exc
            raise StoreUnavailable(f"PostgreSQL: {str(exc) or 'no answer'}") from exc
        self.release()
        whom = "one with it" if self._is_shared else "another one"
        raise StoreInUse(
            f"broker: memory: is for one master, and {whom} runs on this store. Masters that share a "
            "store need a broker that wakes them: give each of them --broker redis://HOST:PORT, or stop the other one"
        )

    def release(self) -> None:
        if self._retaking is not None:
            self._retaking.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    def renew(self) -> None:
        """Take the lock again on a connection of its own: the one that has it leads to a server that is read-only."""
        if self._connection is not None:
            self._connection.terminate()

    async def _try_acquire(self) -> bool:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._dsn, timeout=CONNECT_S, server_settings=_KEEPALIVE)
            self._connection.add_termination_listener(self._on_termination)
        function = "pg_try_advisory_lock_shared" if self._is_shared else "pg_try_advisory_lock"
        return bool(await self._connection.fetchval(f"SELECT {function}($1)", _KEY))

    def _on_termination(self, connection: object) -> None:
        if connection is self._connection:
            self._connection = None
            self._retaking = asyncio.create_task(self._retake_lock(), name="database-lock")

    async def _retake_lock(self) -> None:
        logged: set[str] = set()
        while True:
            try:
                if await self._try_acquire():
                    log.info("database_lock_back")
                    return
                if "second_master" not in logged:
                    logged.add("second_master")
                    log.error("second_master", error="another master without a broker runs on this store")
            except _AWAY as exc:
                if "database_lock_lost" not in logged:
                    logged.add("database_lock_lost")
                    log.warning("database_lock_lost", error=repr(exc))
            await asyncio.sleep(RETAKE_S)
