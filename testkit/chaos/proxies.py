"""A small proxy in front of each master for each worker, where the machine allows no network namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from testkit.chaos.network import Direction

_HOST = "127.0.0.1"
_PIECE = 1 << 16
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Line:
    """The line between one worker and all masters. What is sent while it is cut waits, as TCP would send it again."""

    def __init__(self) -> None:
        self._is_open = {Direction.UP: asyncio.Event(), Direction.DOWN: asyncio.Event()}
        self.heal()

    def cut(self, direction: Direction) -> None:
        for way, is_open in self._is_open.items():
            if way in direction:
                is_open.clear()

    def heal(self) -> None:
        for is_open in self._is_open.values():
            is_open.set()

    async def passable(self, direction: Direction) -> None:
        for way, is_open in self._is_open.items():
            if way in direction:
                await is_open.wait()


class Proxies:
    """A network that is cut inside proxies."""

    name = "fault proxies"
    host = _HOST

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def join(self, worker: str, ports: Sequence[int]) -> Sequence[str]:
        line = self._lines[worker] = Line()
        urls = []
        for port in ports:
            server = await asyncio.start_server(self._serving(line, port), _HOST, 0)
            self._servers.append(server)
            urls.append(f"http://{_HOST}:{server.sockets[0].getsockname()[1]}")
        return urls

    def within(self, worker: str) -> Sequence[str]:
        return ()

    async def cut(self, worker: str, direction: Direction) -> None:
        self._lines[worker].cut(direction)

    async def heal(self, worker: str) -> None:
        self._lines[worker].heal()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _serving(self, line: Line, port: int) -> Serve:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await _carry(line, port, reader, writer)
            except asyncio.CancelledError:
                pass  # the end of the run; the stream's own callback would log it as an error
            finally:
                self._connections.discard(task)
                await _closed(writer)

        return serve


async def _carry(line: Line, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await line.passable(Direction.BOTH)
    try:
        from_master, to_master = await asyncio.open_connection(_HOST, port)
    except OSError:
        writer.transport.abort()
        return
    pumps = [
        asyncio.create_task(_pump(line, Direction.UP, reader, to_master)),
        asyncio.create_task(_pump(line, Direction.DOWN, from_master, writer)),
    ]
    try:
        # The end of either side ends both: HTTP has no use for a half-closed connection.
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await _closed(to_master)


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _pump(line: Line, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while True:
            piece = await reader.read(_PIECE)
            # Not even the end of a connection gets over a cut line.
            await line.passable(direction)
            if not piece:
                return
            writer.write(piece)
            await writer.drain()
