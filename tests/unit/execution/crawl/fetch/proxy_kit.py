"""A small proxy on loopback: plain requests in absolute form, and tunnels by CONNECT."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class RunningProxy:
    port: int = 0
    asked: list[str] = field(default_factory=list)
    """`CONNECT host:port` and `GET http://…`, as they came."""
    refuses: int = 0
    """A status to answer with instead."""
    user: str = ""
    tunnels_to: tuple[str, int] | None = None
    """Where every request goes, whatever it names: how a proxy's own names are made."""

    @property
    def url(self) -> str:
        return f"http://{self.user}@127.0.0.1:{self.port}" if self.user else f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b" ", 2)
            self.asked.append(f"{method.decode()} {target.decode()}")
            wanted = b"Proxy-Authorization: Basic " + b64encode(self.user.encode())
            if self.user and wanted not in head:
                writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            elif self.refuses:
                writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % self.refuses)
            elif method == b"CONNECT":
                await self._tunnel(target.decode(), reader, writer)
            else:
                await self._pass_on(target.decode(), head, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def _tunnel(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = target.rpartition(":")
        there, away = await asyncio.open_connection(*(self.tunnels_to or (host, int(port))))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await _both_ways(reader, writer, there, away)

    async def _pass_on(
        self, target: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        parts = urlsplit(target)
        there, away = await asyncio.open_connection(*(self.tunnels_to or (parts.hostname or "", parts.port or 80)))
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        # One request for each connection: all that is asked is seen.
        head = head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        away.write(head.replace(target.encode(), path.encode(), 1))
        await _both_ways(reader, writer, there, away)


async def _both_ways(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader, away: asyncio.StreamWriter
) -> None:
    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()

    await asyncio.gather(copy(reader, away), copy(there, writer))


@asynccontextmanager
async def proxy(user: str = "", refuses: int = 0) -> AsyncIterator[RunningProxy]:
    running = RunningProxy(user=user, refuses=refuses)
    talks: set[asyncio.Task[None]] = set()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(running.serve(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
