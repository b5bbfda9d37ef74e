"""HTTP connections to untrusted sites: one request and one answer at a time, parsed as it arrives, within limits.

aiohttp makes the connections (names, addresses, TLS, tunnels through proxies) and keeps them for the next request. The
bytes on them are parsed here, by the parser that aiohttp has inside (llhttp), without the objects that its session
makes of every answer.

head      at most HEADERS lines of at most LINE_BYTES
interim   a server may send any number of answers (103 Early Hints) before the final one: a flood of them ends the
          connection
body      has its declared length (RFC 9112, 6.3). Many servers count characters where they send bytes: bytes behind
          the end are no part of the answer, and no beginning of the next one, so the connection ends with it
slow      back-pressure: a reader that is slower than the site holds the site up and does not fill the memory
idle      bytes that arrive on a kept connection before a request end it: they would be taken for the next answer
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

LINE_BYTES = 8_190
HEADERS = 128
BARE_BYTES = 1 << 20
"""Limit on bytes of an answer that bring none of its body."""
ANSWERS_MOST = 100
"""Limit on interim answers before the final one."""
HELD_BYTES = 128 << 10
"""Number of unread bytes of a body at which reading from its site is paused."""
PART_BYTES = 64
"""Memory that a part of a body takes besides its own bytes."""

Fields = list[tuple[bytes, bytes]]


class NotHttp(aiohttp.ClientError):
    """Raised when the received bytes are no valid HTTP answer."""


class SiteConnection(ResponseHandler):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._response_parser: HttpResponseParser | None = None
        self._early = b""
        self._is_asked = False
        self._is_held = False
        self._data_waiter: asyncio.Future[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._reset_answer()

    def _reset_answer(self) -> None:
        """Reset the state of the last answer."""
        self.status = 0
        self.reason = b""
        self.fields: Fields = []
        self._trailers: Fields = []
        self._bare_bytes = 0
        self._interim = 0
        self._is_begun = False
        self._is_whole = False
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self._failure: Exception | None = None

    # -- requests

    async def send_request(self, request: bytes, ends_at: float) -> None:
        """Send a request and return when the head of its answer is here; all of it has to be here by `ends_at`."""
        transport: Any = self.transport
        if transport is None or transport.is_closing():
            raise aiohttp.ServerDisconnectedError
        self._reset_answer()
        self._is_asked = True
        if self._response_parser is None:
            self._response_parser = HttpResponseParser(self)
            # The parser is as lenient with the answers of sites as browsers and aiohttp are.
            self._response_parser.set_dangerous_leniencies(
                lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
            )
        self._deadline = self._loop.call_at(ends_at, self._end_by_timeout)
        transport.write(request)
        if self._early:
            early, self._early = self._early, b""
            self._release_reading()
            self.data_received(early)
        try:
            while not self._is_begun:
                await self._wait_for_data()
        except BaseException:
            self.end_exchange()
            raise

    async def read_part(self) -> bytes:
        """Return the received part of the body, or wait for the next one; empty at the end of the body."""
        while not self._parts and not self._is_whole:
            await self._wait_for_data()
        parts = self._parts
        if not parts:
            return b""
        self._parts = []
        self._held_bytes = 0
        if self._is_held:
            self._release_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def put_back(self, rest: bytes) -> None:
        """Put back a part of the body that is to be read later."""
        self._parts.insert(0, rest)
        self._held_bytes += len(rest)

    @property
    def is_read(self) -> bool:
        return self._is_whole and not self._parts

    def end_exchange(self) -> None:
        """End the exchange: no caller waits for the answer any more."""
        self._is_asked = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._parts = []
        # The exception's traceback references the frames that waited for it.
        self._failure = None
        if self._is_held:
            self._release_reading()
        if not self._is_whole:
            self.force_close()

    async def _wait_for_data(self) -> None:
        """Wait until data arrives, or raise the failure because of which none will arrive."""
        if self._failure is not None:
            raise self._failure
        self._data_waiter = self._loop.create_future()
        try:
            await self._data_waiter
        finally:
            self._data_waiter = None

    def _wake_waiter(self) -> None:
        if self._data_waiter is not None and not self._data_waiter.done():
            self._data_waiter.set_result(None)

    def _set_failure(self, failure: Exception) -> None:
        if self._failure is None:
            self._failure = failure
        self._wake_waiter()

    def _end_by_timeout(self) -> None:
        self._deadline = None
        self._set_failure(TimeoutError("no answer in time"))

    def _release_reading(self) -> None:
        self._is_held = False
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    # -- received bytes

    def data_received(self, data: bytes) -> None:
        if self._parser is not None:
            # These bytes are a proxy's answer to the request for a tunnel.
            super().data_received(data)
            return
        if not self._is_asked or self._response_parser is None:
            self._receive_unasked(data)
            return
        held_bytes = self._held_bytes
        try:
            self._response_parser.feed_data(data)
        except HttpParserUpgrade:
            self.force_close()
        except HttpParserError as exc:
            self.force_close()
            if not self._is_whole:
                self._set_failure(NotHttp(str(exc.__context__ or exc)))
                return
        if self._is_whole:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._held_bytes == held_bytes:
            # A head, trailers and the framing of chunks are no body, and the parser may hold all of it.
            self._bare_bytes += len(data)
            if self._bare_bytes > BARE_BYTES:
                self.force_close()
                self._set_failure(NotHttp("too much of it is no page"))
        elif self._held_bytes > HELD_BYTES and not self._is_held:
            self._is_held = True
            cast(asyncio.Transport, self.transport).pause_reading()
        if self._is_begun:
            self._wake_waiter()

    def _receive_unasked(self, data: bytes) -> None:
        if self._response_parser is None and not self._early:
            # Some servers send first (and not HTTP): these bytes are parsed as the answer to the first request.
            self._early = data
            self._is_held = True
            cast(asyncio.Transport, self.transport).pause_reading()
        elif self.transport is not None:
            self.force_close()
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._is_asked and not self._is_whole:
            if not self._is_begun:
                broken = aiohttp.ClientOSError(*exc.args) if isinstance(exc, OSError) else None
                self._set_failure(broken or aiohttp.ServerDisconnectedError())
            elif exc is None and self._is_open_ended():
                self._is_whole = True
                self._wake_waiter()
            else:
                self._set_failure(aiohttp.ClientPayloadError("the connection was closed before the end of the body"))
        # The parser references this connection as well: no other code would break the reference cycle.
        self._response_parser = None
        super().connection_lost(exc)

    def _is_open_ended(self) -> bool:
        """Return whether the answer declares no length, and ends with its connection."""
        names = {name.lower(): value.lower() for name, value in self.fields}
        return b"content-length" not in names and b"chunked" not in names.get(b"transfer-encoding", b"")

    # -- callbacks of the parser

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise NotHttp("more than one answer")

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers behind a body count as well, although no code reads them.
        fields = self._trailers if self._is_begun else self.fields
        fields.append((name, value))
        if len(fields) > HEADERS or len(name) > LINE_BYTES or len(value) > LINE_BYTES:
            raise NotHttp("too many headers, or one that is too long")

    def on_headers_complete(self) -> None:
        assert self._response_parser is not None
        status = self._response_parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._interim += 1
            if self._interim > ANSWERS_MOST:
                raise NotHttp("too many answers to one request")
            self.fields, self.reason = [], b""
            return
        self.status = status
        self._is_begun = True

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)
        # Some bodies come in chunks of one byte.
        self._held_bytes += len(part) + PART_BYTES

    def on_message_complete(self) -> None:
        if self._is_begun:
            self._is_whole = True
            if not cast(HttpResponseParser, self._response_parser).should_keep_alive():
                self.force_close()


class Connector(aiohttp.TCPConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # aiohttp offers no other way to choose the protocol class of its connections.
        factory = partial(SiteConnection, loop=asyncio.get_running_loop())
        self._factory = cast("partial[ResponseHandler]", factory)

    async def get_kept_connection(self, key: ConnectionKey) -> Connection | None:
        """Return a kept connection that waits for a request, if there is one; never make a new one."""
        return await self._get(key, [])
