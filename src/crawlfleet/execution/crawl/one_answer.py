"""Connections to strangers: one answer is expected at a time, and a flood of them ends the connection.

A server may send any number of interim answers (103 Early Hints) before the one that counts. The client passes them
over one by one and has no limit for them; whoever sends them faster than that would fill the memory and keep the loop
from everything else.

An answer is as long as it says (RFC 9112, 6.3), and what comes after it is no part of it. Many servers count characters
where they send bytes. The client takes such an answer for good when the rest comes later, and for none when all of it
comes at once, in which case it is read here once more, up to its end.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpResponseParser, RawResponseMessage
from aiohttp.http_exceptions import BadStatusLine, HttpProcessingError
from aiohttp.streams import StreamReader

ANSWERS_MOST = 100
"""That came and were not looked at yet, to the one request there is."""


_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_CODED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


class OneAnswer(ResponseHandler):
    _last = b""

    def data_received(self, data: bytes) -> None:
        self._last = data
        super().data_received(data)
        # A kept connection must not hold on to it.
        self._last = b""

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        if cause and isinstance(cause[0], BadStatusLine) and not len(self):
            answer = self._cut(self._last)
            if answer is not None:
                # The connection is closed by now: nothing else is read from it.
                self._should_close = True
                self.feed_data(answer)
                return
        super().set_exception(exc, *cause)

    def _cut(self, data: bytes) -> tuple[RawResponseMessage, StreamReader] | None:
        """The answer that the data begins with, where it has a length and the data goes on behind it."""
        head = data[: data.find(b"\r\n\r\n") + 4]
        said = _LENGTH.findall(head)
        if len(said) != 1 or _CODED.search(head) or len(data) <= (end := len(head) + int(said[0])):
            return None
        parser = HttpResponseParser(self, self._loop, len(data), auto_decompress=False)
        try:
            messages, _, _ = parser.feed_data(data[:end])
        except HttpProcessingError:
            return None
        return messages[0] if len(messages) == 1 else None

    def feed_data(self, data: Any, size: int = 0) -> None:
        if len(self) < ANSWERS_MOST:
            super().feed_data(data, size)
        elif self.transport is not None:
            self.transport.abort()
            self.set_exception(HttpProcessingError(message="too many answers to one request"))


class Connector(aiohttp.TCPConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # There is no other way to say which protocol is spoken on its connections.
        made = partial(OneAnswer, loop=asyncio.get_running_loop())
        self._factory = cast("partial[ResponseHandler]", made)
