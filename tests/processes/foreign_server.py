"""The address of a master at which, for a while, another server answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from yarl import URL

_HTML = b"<html><body>nothing of yours is here</body></html>"


def answer(status: str, body: bytes = _HTML, *headers: str, kind: str = "text/html") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


FOREIGN = {
    "404": answer("404 Not Found"),
    "404 of another API": answer(
        "404 Not Found", b'{"code":"not_found","detail":"nothing here"}', kind="application/problem+json"
    ),
    "401": answer("401 Unauthorized", _HTML, "WWW-Authenticate: Basic"),
    "403": answer("403 Forbidden"),
    "502": answer("502 Bad Gateway"),
    "redirect": answer("302 Found", b"", "Location: http://127.0.0.1:9/login"),
    "HTML": answer("200 OK"),
    "other JSON": answer("200 OK", b'{"status":"ok"}', kind="application/json"),
    "garbage": b"\x16\x03\x01\x00\x00 this is no HTTP\r\n\r\n",
    "nothing": b"",
}


class ForeignServer:
    """Passes connections on to the master, or answers all of them itself."""

    def __init__(self, master: str) -> None:
        self._master = URL(master)
        self._answer: bytes | None = None
        self._links: set[asyncio.StreamWriter] = set()
        self.url = ""
        self.passed = self.answered = 0
        """Connections, since it changed last."""

    def become(self, said: bytes | None) -> None:
        """From now on: answer this to everybody, or pass everything on to the master."""
        self._answer = said
        self.passed = self.answered = 0
        for link in self._links:
            link.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._links.add(writer)
        try:
            if self._answer is None:
                await self._pass_on(reader, writer)
            else:
                self.answered += 1
                await reader.read(65_536)
                writer.write(self._answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._links.discard(writer)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._master.host is not None
        back_reader, back_writer = await asyncio.open_connection(self._master.host, self._master.port)
        self._links.add(back_writer)
        self.passed += 1
        try:
            await asyncio.gather(_copy(reader, back_writer), _copy(back_reader, writer))
        finally:
            self._links.discard(back_writer)
            back_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@asynccontextmanager
async def foreign_server(master: str) -> AsyncIterator[ForeignServer]:
    foreign = ForeignServer(master)
    server = await asyncio.start_server(foreign.serve, "127.0.0.1", 0)
    foreign.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield foreign
    finally:
        foreign.become(b"")
        server.close()
