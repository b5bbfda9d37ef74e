"""The HTTP protocol of a master: uvicorn's, with limits on what a caller may send and how long it may take.

uvicorn limits neither the head of a request nor the time for it, and its parser joins the pieces of a header by copying
all of them for each new one, so that one endless header takes all the time of the event loop. Here each piece of a head
is counted before the parser gets it. A refusal is answered once, as a problem document, and what the caller still sends
is read and discarded for a short time (`LINGER_S`), so that the response is not lost with the connection.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from crawlfleet.api.http import errors
from crawlfleet.api.http.auth import NotFromHere
from crawlfleet.api.http.errors import HeadTimeout, HeadTooLarge, Malformed
from crawlfleet.bootstrap.connection_guard import ConnectionGuard, Peer, Wait
from crawlfleet.bootstrap.websocket_protocol import BoundedWebSocketProtocol
from crawlfleet.errors import UsageError

HEAD_FIELDS = 128
PIPELINED = 16
WEBSOCKET_PATH = b"/api/v1/events/ws"
_BODY_HEADERS = (b"content-length", b"transfer-encoding")
UNREAD_BYTES = 1 << 20
"""Maximum number of bytes that are read of a body that was answered before it was read, for a caller who has shown no
token."""
UNREAD_BYTES_IDENTIFIED = 64 << 20


class _RefusedError(Exception):
    """Ends the parser's work from inside one of its callbacks."""


class BoundedHttpProtocol(HttpToolsProtocol):
    peer: Peer | None

    def __init__(
        self,
        guard: ConnectionGuard,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config=config, server_state=server_state, app_state=app_state, _loop=_loop)
        self.peer = None
        self._guard = guard
        self._head_limit = guard.limits.head_bytes
        self._is_in_head = True
        self._head_bytes = 0
        self._fields = 0
        self._messages = 0
        self._silent_bytes = 0
        """Bytes of a body's framing (sizes of chunks, trailers) since the last piece of its content."""
        self._unread_bytes = 0
        self._refusal = Malformed.code
        self._is_refused = False
        self._is_upgrading = False
        """Whether the request opens a WebSocket."""
        self._unsent_bytes = 0

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self.peer is None:
            self.peer = self._guard.admit_connection(transport, address)
        else:
            # The connection was admitted before its TLS handshake.
            self.peer.transport = transport
            self.peer.set_deadline(Wait.HEAD)
        self.peer.on_expiry = self._handle_expiry
        if not self._guard.may_connect(address):
            self._refuse_request(NotFromHere.code)

    def connection_lost(self, exc: Exception | None) -> None:
        assert self.peer is not None
        self._guard.forget_peer(self.peer)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        peer = self.peer
        assert peer is not None
        if self._is_refused:
            self._discard_bytes(len(data))
            return
        self._unset_keepalive_if_required()
        if not self._feed_parser(data):
            return
        if self._is_in_head:
            # After a head that came whole there is nothing to wait for: the usual case costs nothing here.
            if self._head_bytes and peer.wait is not Wait.HEAD:
                peer.set_deadline(Wait.HEAD)
        elif peer.wait is not Wait.DRAIN and (peer.is_identified or peer.wait is None):
            peer.set_deadline(Wait.BODY)

    def _feed_parser(self, data: bytes) -> bool:
        """Feed the parser with as much of the data as the limits allow. Returns False when the connection has been
        refused."""
        while True:
            piece = data
            if not self._is_in_head:
                self._silent_bytes += len(data)
            elif self._head_bytes + len(data) > self._head_limit:
                piece = data[: self._head_limit - self._head_bytes]
            messages = self._messages
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade:
                if self._is_upgrading:
                    self.handle_websocket_upgrade()
                    return False
                # No other protocol is supported: the request is answered as the HTTP/1.1 request that it also is.
            except httptools.HttpParserError:
                self._refuse_request(self._refusal)
                return False
            if self._is_in_head and messages == self._messages:
                self._head_bytes += len(piece)
            if self._silent_bytes > self._head_limit or (self._is_in_head and self._head_bytes >= self._head_limit):
                self._refuse_request(HeadTooLarge.code)
                return False
            if piece is data:
                return True
            data = data[len(piece) :]

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED:
            raise _RefusedError
        self._fields = self._head_bytes = 0
        super().on_message_begin()
        assert self.scope is not None
        self.scope["state"]["connection"] = self.peer

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > HEAD_FIELDS:
            self._refusal = HeadTooLarge.code
            raise _RefusedError
        # A trailer is not a header: what comes after the body must not change what was decided by the head.
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        assert self.peer is not None
        self._is_in_head = False
        self._head_bytes = self._silent_bytes = self._unread_bytes = 0
        self.peer.clear_deadline()
        self._is_upgrading = self._is_websocket_request()
        super().on_headers_complete()

    def _is_websocket_request(self) -> bool:
        """Return whether the head asks for a WebSocket where there is one. After a request that is still being answered
        it is an ordinary request: its answer would come in between."""
        return (
            self.url.partition(b"?")[0] == WEBSOCKET_PATH
            and self.parser.get_method() == b"GET"
            and self.parser.should_upgrade()
            and self._get_upgrade() == b"websocket"
            and getattr(self.cycle, "response_complete", True)
            and not any(name in _BODY_HEADERS for name, _ in self.headers)
        )

    def _should_upgrade(self) -> bool:
        return self._is_upgrading

    def handle_websocket_upgrade(self) -> None:
        assert self.peer is not None
        make_protocol: Any = functools.partial(BoundedWebSocketProtocol, self.peer, self._guard.forget_peer)
        self.ws_protocol_class = make_protocol
        super().handle_websocket_upgrade()

    def on_body(self, body: bytes) -> None:
        self._silent_bytes = 0
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            assert self.peer is not None
            if self._unread_bytes > (UNREAD_BYTES_IDENTIFIED if self.peer.is_identified else UNREAD_BYTES):
                # The caller goes on sending, and has had all this time to read its response.
                self._abort_connection("unread_body")
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        assert self.peer is not None
        self._messages += 1
        self._is_in_head = True
        self._head_bytes = self._silent_bytes = 0
        super().on_message_complete()
        if self._is_upgrading:
            return
        if not self.cycle.response_complete:
            self.peer.clear_deadline()
        elif not self.transport.is_closing():
            # The response was sent before the body was read to its end; from here on the connection is like any other.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
            self._await_request()

    # Responses

    def on_response_complete(self) -> None:
        super().on_response_complete()
        assert self.peer is not None
        if self.transport.is_closing():
            self._await_caller(Wait.CLOSE)
        elif not self._is_in_head and not self.pipeline and self.cycle.response_complete:
            self.peer.set_deadline(Wait.DRAIN)
        elif self._is_in_head and self.cycle.response_complete:
            self._await_request()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._await_caller(Wait.CLOSE)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_caller(Wait.READ)

    def resume_writing(self) -> None:
        super().resume_writing()
        assert self.peer is not None
        if self.peer.wait is Wait.READ:
            self.peer.clear_deadline()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: callers without a token could fill the disk with such lines."""

    def _await_request(self) -> None:
        """Wait for the next request. Connections of identified callers are left to uvicorn's timer."""
        assert self.peer is not None
        if self.peer.is_identified:
            self.peer.clear_deadline()
        else:
            self._await_caller(Wait.IDLE)

    # End of the connection

    def _await_caller(self, wait: Wait) -> None:
        """Wait for the caller to read what was sent; its progress is measured from here."""
        assert self.peer is not None
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self.peer.set_deadline(wait)

    def _handle_expiry(self, wait: Wait) -> None:
        assert self.peer is not None
        unsent_bytes = self.transport.get_write_buffer_size()
        match wait:
            case Wait.HEAD if self._head_bytes:
                self._refuse_request(HeadTimeout.code)
            case Wait.BODY if self.flow.read_paused:
                # The server has not taken the bytes that have already arrived.
                self.peer.set_deadline(wait)
            case Wait.READ | Wait.IDLE | Wait.CLOSE if unsent_bytes < self._unsent_bytes:
                self._await_caller(wait)
            case Wait.HEAD | Wait.IDLE if not unsent_bytes:
                self.transport.close()
                self._await_caller(Wait.CLOSE)
            case _:
                self._abort_connection(wait.name.lower())

    def _refuse_request(self, code: str) -> None:
        """Answer with a problem document and end the connection; without an answer where another response is under
        way."""
        assert self.peer is not None
        if self.transport.is_closing():
            return
        self._is_refused = True
        # uvicorn has no cycle before the first request, although its annotation has no None.
        if not getattr(self.cycle, "response_complete", True):
            self._abort_connection(code)
            return
        self._guard.note_refused(code)
        self._unread_bytes = 0
        self.transport.write(_refusal_response(code, self._head_limit))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.peer.set_deadline(Wait.LINGER)

    def _discard_bytes(self, count: int) -> None:
        self._unread_bytes += count
        if self._unread_bytes > UNREAD_BYTES:
            self._abort_connection("unread_body")

    def _abort_connection(self, reason: str) -> None:
        self._guard.note_refused(reason)
        self._is_refused = True
        self.transport.abort()


@cache
def _refusal_response(code: str, head_limit: int) -> bytes:
    refused = errors.error_response(_REFUSALS[code](head_limit))
    return (
        b"HTTP/1.1 %d %s\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        % (refused.status_code, HTTPStatus(refused.status_code).phrase.encode(), len(refused.body))
    ) + bytes(refused.body)


_REFUSALS: dict[str, Callable[[int], UsageError]] = {
    Malformed.code: lambda _: Malformed("this is not a request of HTTP/1.1", field="request"),
    NotFromHere.code: lambda _: NotFromHere("calls from this address are not allowed"),
    HeadTimeout.code: lambda _: HeadTimeout("the head of the request was not complete in time"),
    HeadTooLarge.code: lambda limit: HeadTooLarge(
        f"the head of a request has at most {limit} bytes and {HEAD_FIELDS} headers"
    ),
}
