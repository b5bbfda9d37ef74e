"""The table of connections whose callers have not shown a valid token: how many there are, from where, and which of
them is closed first.

A connection is counted from its acceptance until a request on it was authenticated; identified callers are never
counted, so that unidentified callers cannot use up their places. No connection is refused when it is accepted, because
an attacker and a node that joins look the same then: a connection over the limit takes the place of another one, of the
address with the most of them. So a flood from one address costs only that address, and a caller that sends its request
at once is served before its place is taken.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from itertools import islice
from typing import Generic, Protocol, TypeVar

GRACE_S = 1.0
"""Time in seconds for which a connection over the limit of its address is left alone: many nodes behind one address
connect at once when a master restarts, and each shows its token shortly after."""
_LOOKED_AT = 32


class CallerConnection(Protocol):
    """The part of a request's connection that authentication needs."""

    is_identified: bool

    def identify(self) -> None:
        """Mark the connection as one on which a valid token was shown."""


class Countable(Protocol):
    """The part of a connection that the table needs."""

    source: str
    waiting_since: float | None
    """Time since which the next step is the caller's; None while a request is being answered."""


CountableT = TypeVar("CountableT", bound=Countable)


def connection_source(address: str) -> str:
    """Return the key that connections are counted by: an IPv4 address, or the /64 network that one IPv6 caller owns."""
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    assert isinstance(parsed, IPv6Address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


class ConnectionTable(Generic[CountableT]):
    """Unidentified connections by address. Every operation takes constant time, except `find_excess`, which goes
    through the addresses over their limit."""

    def __init__(self, max_connections: int, max_per_source: int) -> None:
        self._max_connections = max_connections
        self._max_per_source = max_per_source
        self._total = 0
        self._by_source: dict[str, dict[CountableT, None]] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        self._largest = 0

    def __len__(self) -> int:
        return self._total

    def count(self, source: str) -> int:
        return len(self._by_source.get(source, ()))

    def add(self, connection: CountableT) -> CountableT | None:
        """Add a connection. Returns the connection that has to be closed for it, already removed; None below the
        limit."""
        displaced = self._pick_displaced() if self._total >= self._max_connections else None
        if displaced is not None:
            self.discard(displaced)
        held = self._by_source.setdefault(connection.source, {})
        self._move_source(connection.source, len(held), len(held) + 1)
        held[connection] = None
        self._total += 1
        return displaced

    def discard(self, connection: CountableT) -> None:
        held = self._by_source.get(connection.source)
        if held is None or connection not in held:
            return
        del held[connection]
        self._total -= 1
        self._move_source(connection.source, len(held) + 1, len(held))
        if not held:
            del self._by_source[connection.source]

    def find_excess(self, now: float) -> list[CountableT]:
        """Return the connections that wait for their callers beyond the limit of one address, the oldest first."""
        excess: list[CountableT] = []
        for count in range(self._largest, self._max_per_source, -1):
            for source in self._by_count.get(count, ()):
                waiting = (
                    connection
                    for connection in self._by_source[source]
                    if connection.waiting_since is not None and now - connection.waiting_since >= GRACE_S
                )
                excess += islice(waiting, count - self._max_per_source)
        return excess

    def _pick_displaced(self) -> CountableT:
        """Return the oldest connection of the address with the most, if possible one that waits for its caller."""
        source = next(iter(self._by_count[self._largest]))
        held = self._by_source[source]
        for connection in islice(held, _LOOKED_AT):
            if connection.waiting_since is not None:
                return connection
        return next(iter(held))

    def _move_source(self, source: str, before: int, after: int) -> None:
        """Move an address to its new count. Addresses are indexed by their counts, so that the one with the most is
        found without a search."""
        if before:
            del self._by_count[before][source]
            if not self._by_count[before]:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[source] = None
        if after > self._largest or (before == self._largest and before not in self._by_count):
            self._largest = after
