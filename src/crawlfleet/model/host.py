"""Target hosts: the one spelling of a name, the budget, the back-off and counters, and the share of each session."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant

EASE = 1.05
"""Factor by which a holder spaces its requests wider than its share: then r units are at most r requests in any second.
"""

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*")
_PORT = re.compile(r"[0-9]{1,5}")
_PORT_MAX = 65_535
_USUAL_PORTS = (":80", ":443")


class Units(NamedTuple):
    """Whole units of a host budget: they can be added and given away."""

    rate: int = 0
    """Number of requests per second."""
    concurrency: int = 0
    """Number of requests under way at once."""

    def __bool__(self) -> bool:
        """Return whether any request can be sent with it: rate is of no use without concurrency, nor the reverse."""
        return self.rate > 0 and self.concurrency > 0

    def fits_within(self, within: Units) -> bool:
        return self.rate <= within.rate and self.concurrency <= within.concurrency

    def larger_units(self, other: Units) -> Units:
        """Return the larger of both, for rate and concurrency each."""
        return Units(max(self.rate, other.rate), max(self.concurrency, other.concurrency))


NONE = Units()


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits of a host from one source, such as a person; None for each that it does not set."""

    rate: float | None = None
    """Number of requests per second: a whole number, or less than one."""
    concurrency: int | None = None
    """Number of requests under way at once."""
    delay_s: float | None = None
    """Span between two requests."""

    def __bool__(self) -> bool:
        return self != HostLimits()


@dataclass(frozen=True, slots=True)
class Backoff:
    """The back-off of a host that refuses requests."""

    level: int = 0
    """Number of steps by which the back-off has grown."""
    until: Instant = 0
    """Instant before which no request is sent; 0 when none was ever refused."""
    quiet_since: Instant = 0
    """Instant since which the host has refused nothing; after a time of that, the level falls."""
    reason: str = ""
    """Reason of the back-off, for people."""

    def is_on(self, now: Instant) -> bool:
        return now < self.until


@dataclass(frozen=True, slots=True)
class Host:
    """A target host as it is stored."""

    name: str
    limits: HostLimits = field(default_factory=HostLimits)
    """Limits set by a person."""
    set_by: str | None = None
    set_at: Instant | None = None
    crawl_delay_ms: int = 0
    """Crawl delay of the host's robots.txt."""
    backoff: Backoff = field(default_factory=Backoff)
    requests: int = 0
    """Number of requests sent to the host."""
    refused: int = 0
    """Number of requests that the host refused."""
    blocked: int = 0
    """Number of requests answered with a block page."""
    recent_milli: int = 0
    """Number of requests in a thousand seconds, as of the last count."""
    counted_at: Instant | None = None
    """Instant of the last count."""


@dataclass(frozen=True, slots=True)
class HostShare:
    """The share of one session of a node in the budget of one host."""

    id: int
    node: NodeId
    session: int
    host: str
    wanted: int | None = None
    """Number of requests at once that the session wants; None for a session that no longer wants any part."""
    current: Units = NONE
    """Units that the newest grant gives."""
    may_use: Units = NONE
    """Units that the session may still use, until it has acknowledged a smaller grant."""
    spacing_ms: int = 0
    """Span between two requests, where the host's limit is less than one request per second."""
    cut_version: int = 0
    """Version of the grants that made the share smaller."""
    counted: tuple[int, int, int] = (0, 0, 0)
    """Requests, refused and blocked ones of the session that are included in the host's counters."""


class HostNoteKind(IntEnum):
    """The kind of a report about a host that the leader needs at once."""

    TOO_MANY = 429
    UNAVAILABLE = 503
    BLOCKED = 403
    """The host blocked the reporting node, whose execution continues."""
    CRAWL_DELAY = 1
    """The robots.txt asks for a crawl delay; 0 ms: no longer."""
    CHANGED = 2
    """A person changed the host's budget."""
    FORGIVE = 3
    """A person ends the host's back-off."""

    @property
    def is_refusal(self) -> bool:
        return self in (HostNoteKind.TOO_MANY, HostNoteKind.UNAVAILABLE)


def target_host(text: str) -> str:
    """Return the host under which its budget is kept: name or address, with the port only where it is an unusual one.

    Raises ValueError.
    """
    if "/" in text:
        raise ValueError(f"{text[:100]!r} is not a host name, host:port or address (without scheme, path)")
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    host = crawl_host(bare)
    if _parse_address(host) is not None:
        return f"[{host}]" if ":" in host else host
    return next((host.removesuffix(port) for port in _USUAL_PORTS if host.endswith(port)), host)


def crawl_host(text: str) -> str:
    """Return the one spelling of a name or an address, either with a port, or of a network.

    Raises ValueError for anything else.
    """
    try:
        if "/" in text:
            return str(ipaddress.ip_network(text, strict=False))
        if (address := _parse_address(text)) is not None:
            return address
        host, colon, port = text.rpartition(":")
        if not colon:
            return _parse_name(text)
        if not _PORT.fullmatch(port) or not 0 < int(port) <= _PORT_MAX:
            raise ValueError(port)
        address = _parse_address(host.removeprefix("[").removesuffix("]"))
        shown = _parse_name(host) if address is None else f"[{address}]" if ":" in address else address
        return f"{shown}:{int(port)}"
    except ValueError:
        raise ValueError(
            f"{text[:100]!r} is not a host name, host:port, address or network (without scheme, path)"
        ) from None


def _parse_address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _parse_name(text: str) -> str:
    name = text.lower().rstrip(".")
    if not name.isascii():
        name = name.encode("idna").decode()
    if not _NAME.fullmatch(name):
        raise ValueError(text)
    return name
