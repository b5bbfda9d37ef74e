"""Parsers of two kinds of streams: JSON lines, and server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

_CHUNK = 64 << 10


@dataclass(slots=True)
class ServerSentEvent:
    id: str | None = None
    event: str = "message"
    data: str = ""

    def json(self) -> Any:
        return msgspec.json.decode(self.data)


@dataclass(slots=True)
class EventParser:
    """Parser of server-sent events: it collects the fields of one event line by line; an empty line ends it (the
    standard's rules)."""

    last_id: str | None = None
    retry_s: float | None = None
    _event: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._finish_event()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id" if "\0" not in value:
                self.last_id = value
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "retry" if value.isascii() and value.isdigit():
                self.retry_s = int(value) / 1_000
            case _:
                pass  # a comment keeps the connection alive; an unknown field may come from a later version
        return None

    def _finish_event(self) -> ServerSentEvent | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        if not data:
            return None
        return ServerSentEvent(self.last_id, event or "message", "\n".join(data))


async def read_lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length: the reader's own loop refuses those over its buffer."""
    rest = b""
    async for chunk in stream.iter_chunked(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest
