"""Below HTTP: asks the nasty site with a socket, and takes what comes, within limits."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from functools import cached_property

from testkit.site import RunningSite

MOST_BYTES = 3_000_000


@dataclass
class Heard:
    raw: bytes
    """What came, up to the limit."""
    ended: str
    """whole (by its own word), closed, reset, silent (nothing more came in time) or full (there was more)."""
    took_s: float
    parts: list[float] = field(default_factory=list)

    @cached_property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    @cached_property
    def headers(self) -> Message:
        head = self.raw.partition(b"\r\n\r\n")[0].partition(b"\r\n")[2]
        return BytesParser().parsebytes(head)

    @cached_property
    def body(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[2]

    @property
    def is_whole(self) -> bool:
        return len(self.body) == int(self.headers["Content-Length"])


async def ask(
    shop: RunningSite,
    path: str,
    *,
    host: str | None = None,
    headers: tuple[str, ...] = (),
    silence_s: float = 0.25,
    first_s: float = 20.0,
    beyond: bool = False,
    most: int = MOST_BYTES,
    method: str = "GET",
    body: bytes = b"",
) -> Heard:
    """Reads until the answer is whole (or beyond), the other side ends, is silent so long, or has said too much.

    For the first byte it waits longer: a busy machine is not a silent site.
    """
    port = int(shop.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host or shop.host}", "User-Agent: kit", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await _hear(reader, first_s, silence_s, most, beyond)
    finally:
        writer.transport.abort()


async def _hear(reader: asyncio.StreamReader, first_s: float, silence_s: float, most: int, beyond: bool) -> Heard:
    began = time.monotonic()
    raw, parts = bytearray(), list[float]()
    while len(raw) < most:
        try:
            data = await asyncio.wait_for(reader.read(65_536), silence_s if raw else first_s)
        except TimeoutError:
            return Heard(bytes(raw), "silent", time.monotonic() - began, parts)
        except ConnectionResetError:
            return Heard(bytes(raw), "reset", time.monotonic() - began, parts)
        if not data:
            return Heard(bytes(raw), "closed", time.monotonic() - began, parts)
        raw += data
        parts.append(time.monotonic() - began)
        if not beyond and _is_all(raw):
            return Heard(bytes(raw), "whole", time.monotonic() - began, parts)
    return Heard(bytes(raw), "full", time.monotonic() - began, parts)


def _is_all(raw: bytearray) -> bool:
    end = raw.find(b"\r\n\r\n")
    if end < 0:
        return False
    if raw.startswith((b"HTTP/1.1 304", b"HTTP/1.1 204")):
        return True
    at = raw.find(b"Content-Length: ", 0, end)
    length = bytes(raw[at + 16 : raw.find(b"\r\n", at)]) if at > 0 else b""
    return length.isdigit() and len(raw) >= end + 4 + int(length)
