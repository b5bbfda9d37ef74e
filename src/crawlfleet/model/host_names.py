"""Host names: the one spelling of a host, as a target with a budget and as an entry of the allowed hosts."""

from __future__ import annotations

import ipaddress
import re
from enum import IntEnum

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*")
_PORT = re.compile(r"[0-9]{1,5}")
_PORT_MAX = 65_535
_USUAL_PORTS = (":80", ":443")


class HostNews(IntEnum):
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
        return self in (HostNews.TOO_MANY, HostNews.UNAVAILABLE)


def target_host(text: str) -> str:
    """Return the host under which its budget is kept: name or address, with the port only where it is an unusual one.

    Raises ValueError.
    """
    if "/" in text:
        raise ValueError(f"{text[:100]!r} is not a host name, host:port or address (without scheme, path)")
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    host = crawl_host(bare)
    if _address(host) is not None:
        return f"[{host}]" if ":" in host else host
    return next((host.removesuffix(port) for port in _USUAL_PORTS if host.endswith(port)), host)


def crawl_host(text: str) -> str:
    """Return the one spelling of a name or an address, either with a port, or of a network.

    Raises ValueError for anything else.
    """
    try:
        if "/" in text:
            return str(ipaddress.ip_network(text, strict=False))
        if (address := _address(text)) is not None:
            return address
        host, colon, port = text.rpartition(":")
        if not colon:
            return _name(text)
        if not _PORT.fullmatch(port) or not 0 < int(port) <= _PORT_MAX:
            raise ValueError(port)
        address = _address(host.removeprefix("[").removesuffix("]"))
        shown = _name(host) if address is None else f"[{address}]" if ":" in address else address
        return f"{shown}:{int(port)}"
    except ValueError:
        raise ValueError(
            f"{text[:100]!r} is not a host name, host:port, address or network (without scheme, path)"
        ) from None


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _name(text: str) -> str:
    name = text.lower().rstrip(".")
    if not name.isascii():
        name = name.encode("idna").decode()
    if not _NAME.fullmatch(name):
        raise ValueError(text)
    return name
