"""Connection guard: limits what a connection may cost before its caller is identified, and how long it may keep the
server waiting.

Each accepted connection has a `Peer`. While the next step is the caller's, the peer has a deadline, and a sweep, twice
a second, ends the peers whose deadline has passed: a timer per request would cost every request, and the sweep costs
only those that wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Protocol

import structlog

from crawlfleet.api.http.connection_table import ConnectionTable, connection_source

log = structlog.get_logger()

SWEEP_S = 0.5
BODY_TIMEOUT_S = 30.0
"""Timeout between two pieces of the body of an identified caller; for a caller that is not identified yet, the timeout
for the whole body."""
WRITE_TIMEOUT_S = 10.0
"""Timeout for a response of which the caller reads nothing; a response that is read slowly has no timeout."""
IDLE_S = 20.0
"""Timeout between two requests of a caller who has shown no token."""
CLOSE_S = 10.0
"""Timeout for the last bytes of a response before its connection ends, if the caller reads none of them."""
IDENTIFIED_READ_S = 600.0
"""Timeout that replaces both WRITE_TIMEOUT_S and CLOSE_S for an identified caller: a download may be piped into a
program that pauses."""
LINGER_S = 2.0
"""Time that a caller has to read a refusal before its connection ends."""
DRAIN_S = 10.0
"""Timeout for the rest of a body that was answered before it was read."""
_REPORT_S = 60.0


class Wait(Enum):
    """The step that the caller of a connection has to take next."""

    HEAD = auto()
    BODY = auto()
    READ = auto()
    IDLE = auto()
    DRAIN = auto()
    CLOSE = auto()
    LINGER = auto()


_TIMEOUTS_S = {
    Wait.BODY: BODY_TIMEOUT_S,
    Wait.READ: WRITE_TIMEOUT_S,
    Wait.IDLE: IDLE_S,
    Wait.DRAIN: DRAIN_S,
    Wait.CLOSE: CLOSE_S,
    Wait.LINGER: LINGER_S,
}


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    head_bytes: int = 32_768
    """Maximum size of the request line and the headers together."""
    head_timeout_s: float = 10.0
    """Timeout of a request head, from its first byte or from the beginning of the connection to its end; also the
    timeout of a TLS handshake."""
    unidentified: int = 2_000
    unidentified_per_address: int = 128
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks that may connect; an empty tuple allows all."""

    def within_files(self, files: int) -> ConnectionLimits:
        """Limit unidentified callers to at most half of the files that the process may open."""
        limit = min(self.unidentified, max(1, files // 2))
        return ConnectionLimits(
            self.head_bytes, self.head_timeout_s, limit, min(self.unidentified_per_address, limit), self.networks
        )


class Abortable(Protocol):
    def abort(self) -> None: ...


class Peer:
    """One accepted connection, as the guard sees it."""

    __slots__ = (
        "_guard",
        "deadline",
        "is_gone",
        "is_identified",
        "on_expiry",
        "source",
        "transport",
        "wait",
        "waiting_since",
    )

    def __init__(self, guard: ConnectionGuard, transport: Abortable, source: str) -> None:
        self._guard = guard
        self.transport = transport
        self.source = source
        self.is_identified = False
        self.is_gone = False
        self.wait: Wait | None = None
        self.waiting_since: float | None = None
        self.deadline = 0.0
        self.on_expiry: Callable[[Wait], None] | None = None
        """Callback of the HTTP protocol for a deadline that has passed; without it the connection is cut."""

    def identify(self) -> None:
        self.is_identified = True
        self._guard.forget_unidentified(self)

    def set_deadline(self, wait: Wait) -> None:
        """Give the caller, whose step is next, until the deadline of that step."""
        self._guard.watch_peer(self, wait)

    def clear_deadline(self) -> None:
        """Remove the deadline, because the next step is the server's."""
        if self.wait is not None:
            self._guard.unwatch_peer(self)


class ConnectionGuard:
    def __init__(self, limits: ConnectionLimits, monotonic: Callable[[], float]) -> None:
        self.limits = limits
        self._monotonic = monotonic
        self._timeouts_s = {**_TIMEOUTS_S, Wait.HEAD: limits.head_timeout_s}
        self._identified_timeouts_s = {**self._timeouts_s, Wait.READ: IDENTIFIED_READ_S, Wait.CLOSE: IDENTIFIED_READ_S}
        self._unidentified: ConnectionTable[Peer] = ConnectionTable(
            limits.unidentified, limits.unidentified_per_address
        )
        self._watched: set[Peer] = set()
        self._closed: Counter[str] = Counter()
        self._reported_at = monotonic()

    @property
    def unidentified(self) -> int:
        """Number of open connections whose callers are not identified."""
        return len(self._unidentified)

    def may_connect(self, address: str) -> bool:
        return not self.limits.networks or is_within(address, self.limits.networks)

    def admit_connection(self, transport: Abortable, address: str) -> Peer:
        """Register a new connection. When there are too many unidentified connections, another one is cut for it."""
        peer = Peer(self, transport, connection_source(address))
        displaced = self._unidentified.add(peer)
        if displaced is not None:
            self._cut_connection(displaced, "too_many")
        self.watch_peer(peer, Wait.HEAD)
        return peer

    def forget_peer(self, peer: Peer) -> None:
        """Remove a peer whose connection is closed."""
        peer.is_gone = True
        self.unwatch_peer(peer)
        self._unidentified.discard(peer)

    def forget_unidentified(self, peer: Peer) -> None:
        self._unidentified.discard(peer)

    def watch_peer(self, peer: Peer, wait: Wait) -> None:
        if peer.is_gone:
            return
        now = self._monotonic()
        peer.wait = wait
        peer.waiting_since = now
        peer.deadline = now + (self._identified_timeouts_s if peer.is_identified else self._timeouts_s)[wait]
        self._watched.add(peer)

    def unwatch_peer(self, peer: Peer) -> None:
        peer.wait = peer.waiting_since = None
        self._watched.discard(peer)

    def note_refused(self, reason: str) -> None:
        self._closed[reason] += 1

    def sweep(self) -> None:
        """End the connections that are past their deadline or over the limit of their address."""
        now = self._monotonic()
        for peer in [peer for peer in self._watched if peer.deadline <= now]:
            self._expire_peer(peer)
        for peer in self._unidentified.find_excess(now):
            self._cut_connection(peer, "too_many_of_one_address")
        if self._closed and now - self._reported_at >= _REPORT_S:
            log.warning("connections_ended", unidentified=self.unidentified, **self._closed)
            self._closed.clear()
            self._reported_at = now

    def _expire_peer(self, peer: Peer) -> None:
        wait = peer.wait
        if wait is None:
            return
        if peer.on_expiry is None:
            self._cut_connection(peer, "handshake")
        else:
            peer.on_expiry(wait)

    def _cut_connection(self, peer: Peer, reason: str) -> None:
        # The connection is aborted, not closed in order: bytes that the caller never reads would be kept until it does.
        self._closed[reason] += 1
        self.forget_peer(peer)
        peer.transport.abort()


def is_within(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    try:
        caller = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    # A dual-stack socket shows IPv4 callers as ::ffff:a.b.c.d.
    caller = getattr(caller, "ipv4_mapped", None) or caller
    return any(caller in network for network in networks)
