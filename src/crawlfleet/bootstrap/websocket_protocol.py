"""The WebSocket protocol of a master: uvicorn's, below the connection guard, with limits on what may be unsent.

The connection keeps the peer under which it was accepted: until its caller is identified it counts among those that are
not, and may be cut in favour of another connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from crawlfleet.bootstrap.connection_guard import CLOSE_S, Peer

UNSENT_BYTES = 1 << 20
"""Number of unsent bytes above which the application waits before it sends more."""
_RESUME_BYTES = UNSENT_BYTES - (64 << 10)


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    def __init__(
        self,
        peer: Peer,
        forget_peer: Callable[[Peer], None],
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        state = {**app_state, "connection": peer, "abandon_socket": self.abandon}
        super().__init__(config=config, server_state=server_state, app_state=state, _loop=_loop)
        self._peer = peer
        self._forget_peer = forget_peer
        self._abort_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._peer.on_expiry = None
        self._peer.clear_deadline()
        self.transport.set_write_buffer_limits(high=UNSENT_BYTES, low=_RESUME_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_peer(self._peer)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        super().connection_lost(exc)

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            # What is still unsent has its time to be read; a caller that reads nothing must not keep it for ever.
            self._abort_timer = self.loop.call_later(CLOSE_S, self.transport.abort)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # The library takes a refused handshake for one that was forgotten, and would log an error for each.
            self.handshake_complete = True

    def abandon(self, code: int, reason: str) -> None:
        """Close the connection of a caller that does not read: the close message follows the bytes that are unsent."""
        if self.close_sent or self.transport.is_closing():
            return
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()
