"""The access to one Redis: its address, new connections to it, and its failures in words for people."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from crawlfleet.errors import ConfigError

Word = bytes | str | int | float
Command = Sequence[Word]

MAX_CONNECTIONS = 20
POOL_TIMEOUT_S = 2.0
"""Timeout for making a connection. It happens in the background: no caller's command waits for it."""


class ConnectionFactory:
    """Opens connections, at most `max_connections` at a time; the wait for a free one counts into the timeout of its
    making."""

    def __init__(
        self, url: str, *, max_connections: int = MAX_CONNECTIONS, pool_timeout_s: float = POOL_TIMEOUT_S
    ) -> None:
        self.pool_timeout_s = pool_timeout_s
        self._free = asyncio.Semaphore(max_connections)
        self.display_url = _without_secrets(url)
        try:
            # RESP2 has everything that is used here, and its subscriptions are read in the same way as its answers.
            self._pool = ConnectionPool.from_url(url, socket_connect_timeout=pool_timeout_s, protocol=2)
        except ValueError as exc:
            raise ConfigError(f"broker: {self.display_url} is not an address of a Redis: {exc}") from exc

    @asynccontextmanager
    async def open_connections(self, count: int) -> AsyncIterator[list[AbstractConnection]]:
        """Open connections, and close them at the end. The pool only supplies the parameters: each connection has one
        owner until it breaks."""
        async with AsyncExitStack() as held:
            for _ in range(count):
                await held.enter_async_context(self._free)
            async with self._open_connections(count) as connections:
                yield connections

    @asynccontextmanager
    async def _open_connections(self, count: int) -> AsyncIterator[list[AbstractConnection]]:
        pool = self._pool
        connections: list[Any] = [pool.connection_class(**pool.connection_kwargs) for _ in range(count)]
        transports: list[asyncio.WriteTransport] = []
        try:
            for connection in connections:
                # Neither an idle pipe nor a silent channel is a fault, whatever timeout the address sets.
                connection.socket_timeout = None
                await connection.connect()
                transports.append(connection._writer.transport)
            yield connections
        finally:
            # A server that hangs never reads what is still to be written, and an orderly close would wait for that.
            for transport in transports:
                transport.abort()
            for connection in connections:
                await connection.disconnect(nowait=True)

    def other_database(self) -> str:
        """Return the address of the next database on the same server, for a hint to the user."""
        path = urlsplit(self.display_url).path.strip("/")
        number = int(path) + 1 if path.isdigit() else 1
        return urlsplit(self.display_url)._replace(path=f"/{number}").geturl()

    def config_error(self, exc: BaseException) -> ConfigError | None:
        """Return the error that no waiting mends if it is met at the start, because a setting is wrong; otherwise
        None."""
        if isinstance(exc, ConfigError):
            return exc
        is_number = isinstance(exc, ResponseError) and "db index" in str(exc).lower()
        return (
            ConfigError(f"broker: {self.describe_failure(exc)}")
            if is_number or isinstance(exc, AuthenticationError)
            else None
        )

    def describe_failure(self, exc: BaseException) -> str:
        """Describe the failure in one line for people."""
        match exc:
            case ConfigError():
                return str(exc)
            case AuthenticationError():
                problem = f"refuses the user or password ({exc})"
            case BusyLoadingError():
                problem = "is still loading its data"
            case ReadOnlyError():
                problem = "is a replica that takes no writes"
            case OutOfMemoryError():
                problem = "has reached its maxmemory and takes no writes"
            case NoPermissionError():
                problem = f"does not allow its user what is needed ({exc})"
            case ResponseError() if "unknown command" in str(exc).lower():
                problem = f"is too old or lacks a command: Redis 6.2 or later is needed ({exc})"
            case ResponseError() if "db index" in str(exc).lower():
                problem = f"has no database of this number ({exc})"
            case ResponseError():
                problem = f"answers with an error: {exc}"
            case RedisError() | OSError() if str(exc):
                problem = f"does not answer: {exc}"
            case TimeoutError():
                problem = f"did not answer within {self.pool_timeout_s:g} s"
            case _:
                problem = f"failed: {exc!r}"
        return f"{self.display_url} {problem}"


async def call_commands(connection: AbstractConnection, *commands: Command) -> list[Any]:
    """Send the commands together, and return their answers."""
    await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    return [await connection.read_response() for _ in commands]


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
