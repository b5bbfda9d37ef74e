"""Entry protocol of HTTPS connections: a connection is counted when it is accepted, and then does its TLS handshake.

The event loop's own TLS server shows a connection only after its handshake, for which a caller may take a minute, any
number of times at once, without ever being counted. So the connection is accepted as a plain one, and its socket is
handed to the loop again, this time for TLS.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from pathlib import Path

from uvicorn.protocols.utils import get_remote_addr

from crawlfleet.bootstrap.connection_guard import ConnectionGuard
from crawlfleet.bootstrap.http_protocol import BoundedHttpProtocol


class TlsEntry(asyncio.Protocol):
    def __init__(self, guard: ConnectionGuard, context: ssl.SSLContext, http: BoundedHttpProtocol) -> None:
        self._guard = guard
        self._context = context
        self._http = http
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        client = get_remote_addr(transport)
        address = client[0] if client else ""
        if not self._guard.may_connect(address):
            # Without a handshake the reason cannot be sent to the caller.
            self._guard.note_refused("address_not_allowed")
            transport.abort()
            return
        # Of the loop's two ways to begin TLS, the one over a transport loses what was read before it began.
        accepted = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        accepted.setblocking(False)
        transport.abort()
        self._http.peer = self._guard.admit_connection(self, address)
        self._handshake = asyncio.get_running_loop().create_task(self._shake_hands(accepted))

    def abort(self) -> None:
        """End the handshake and with it the connection."""
        if self._handshake is not None:
            self._handshake.cancel()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._http, accepted, ssl=self._context, ssl_handshake_timeout=self._guard.limits.head_timeout_s
            )
        except (OSError, asyncio.CancelledError):
            # The caller closed the connection, took too long, speaks another protocol, or was cut in favour of another
            # connection.
            accepted.close()
            if self._http.peer is not None:
                self._guard.forget_peer(self._http.peer)


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context
