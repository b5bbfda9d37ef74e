"""The subscriber for messages of other masters. It has its own connection: a subscribed one takes no commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import TimeoutError as RedisTimeoutError

Handler = Callable[[bytes], Awaitable[None]]


class Listener:
    def __init__(self, connection: AbstractConnection, handlers: Mapping[str, Handler]) -> None:
        self._connection = connection
        self._handlers = {channel.encode(): handler for channel, handler in handlers.items()}
        self._has_received = True

    async def subscribe(self) -> None:
        """Subscribe, and return when every message published from now on is certain to arrive."""
        await self._connection.send_command("SUBSCRIBE", *self._handlers, check_health=False)
        for _ in self._handlers:
            await self._connection.read_response()

    async def handle_messages(self) -> None:
        while True:
            kind, *content = await self._connection.read_response()
            self._has_received = True
            if kind == b"message":
                channel, message = content
                await self._handlers[channel](message)

    async def ping(self) -> None:
        """Send a ping at every beat. Raises when the one before was not answered: the connection died silently."""
        if not self._has_received:
            raise RedisTimeoutError("the subscribed connection is silent")
        self._has_received = False
        await self._connection.send_command("PING", check_health=False)
