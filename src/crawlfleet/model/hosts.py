"""Hosts that crawls may visit although their addresses are private: how one of them is written."""

from __future__ import annotations

import ipaddress
import re

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*")
_PORT = re.compile(r"[0-9]{1,5}")
_PORT_MAX = 65_535


def crawl_host(text: str) -> str:
    """In one spelling: a name or an address, either with a port, or a network. Raises ValueError for anything else."""
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
