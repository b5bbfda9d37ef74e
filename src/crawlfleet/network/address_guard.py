"""The address guard refuses connections to private, loopback, link-local and metadata addresses, unless allowed.

A name is judged by what it resolves to, and exactly the addresses that were judged are connected to: the resolver
passes on nothing else, so a name that resolves differently the next time (DNS rebinding) gains nothing. Addresses are
checked in three places:

1. before a request, for hosts that are addresses already (no resolver is asked about those);
2. in the resolver, for names;
3. where the socket is made, for everything, in case a way around the first two exists.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import Any, NamedTuple

import ada_url
from aiohttp.abc import AbstractResolver, ResolveResult

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NETWORKS = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by a provider's network",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "a cloud's metadata service",
    "169.254.0.0/16": "link-local or a cloud's metadata service",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "reserved for measurements",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "::/128": "unspecified",
    "::1/128": "loopback",
    "64:ff9b:1::/48": "private",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "private",
    "ff00::/8": "multicast",
}
REFUSED: tuple[tuple[Network, str], ...] = tuple((ipaddress.ip_network(net), why) for net, why in _NETWORKS.items())
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")


class AddressRefused(Exception):
    """Raised for an address that may not be connected to.

    It is no OSError, so that no caller takes it for an address to be tried again later.
    """


class AllowedEntry(NamedTuple):
    """One entry of the allow list: a name or a network, on one port or on all ports (0)."""

    name: str
    network: Network | None
    port: int


def parse_allowed_entry(entry: str) -> AllowedEntry:
    """Parse `host`, `host:port`, an address or a network in CIDR form. Raises ValueError that names the entry."""
    text = entry.strip()
    try:
        if "/" in text:
            return AllowedEntry("", ipaddress.ip_network(text, strict=False), 0)
        try:
            return AllowedEntry("", ipaddress.ip_network(text), 0)
        except ValueError:
            pass
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, "0"
        if not 0 <= int(port) <= 65_535:
            raise ValueError(port)
        name = plain_host(ada_url.URL(f"http://{host}/").hostname)
        address = as_address(name)
        return AllowedEntry(name, None if address is None else ipaddress.ip_network(address), int(port))
    except ValueError as exc:
        raise ValueError(f"{entry!r} is no host, host:port, address or network (CIDR)") from exc


def plain_host(hostname: str) -> str:
    """Return the form in which host names are compared: without the brackets of IPv6 and the dot at the end."""
    return hostname.strip("[]").rstrip(".").lower()


def as_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def refusal_reason(address: Address) -> str | None:
    """Return why an address is not connected to by default; None for an address of the open internet."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return refusal_reason(address.ipv4_mapped)
        if (inner := _embedded_ipv4(address)) is not None and (why := refusal_reason(inner)) is not None:
            return why
    for network, why in REFUSED:
        if address.version == network.version and address in network:
            return why
    # The table gives the reason; the library knows the registries better than any table.
    return None if address.is_global else "not of the open internet"


def _embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that a gateway would connect to in place of an IPv6 address."""
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


class AddressGuard:
    """The address rule of one execution, or of the channels of notices."""

    def __init__(
        self, allow_hosts: Iterable[str] = (), *, hint: str = "crawls may visit it where --allow-host permits it"
    ) -> None:
        self._allowed = tuple(parse_allowed_entry(entry) for entry in allow_hosts)
        self._hint = hint
        """How a user allows an address, for the message of a refusal."""
        self._granted: set[tuple[str, int]] = set()
        """Addresses and ports that are refused by default and allowed by an entry: `open_socket` accepts them."""

    def check_address(self, host: str, port: int, address: str) -> None:
        """Raise AddressRefused when `host` (as written in the URL) at `address` may not be connected to."""
        parsed = as_address(address)
        why = "no address" if parsed is None else refusal_reason(parsed)
        if why is None:
            return
        if parsed is None or not self._is_allowed(plain_host(host), port, parsed):
            shown = address if plain_host(host) == address else f"{host} ({address})"
            raise AddressRefused(f"{shown} is {why}: {self._hint}")
        self._granted.add((str(parsed), port))

    def check_literal(self, host: str, port: int) -> None:
        """Check a host in the same way if it is an address already."""
        name = plain_host(host)
        if as_address(name) is not None:
            self.check_address(name, port, name)

    def is_listed(self, host: str, port: int) -> bool:
        """Return whether the allow list names a host: by its name, or by its address if the host is one."""
        name = plain_host(host)
        address = as_address(name)
        if address is not None:
            return self._is_allowed(name, port, address)
        return any(entry.name == name and entry.port in {0, port} for entry in self._allowed)

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make the socket of a connection, after the last check of the address itself."""
        family, kind, protocol, _, (address, port, *_) = info
        parsed = as_address(str(address))
        if parsed is None or (refusal_reason(parsed) is not None and (str(parsed), port) not in self._granted):
            raise AddressRefused(f"{address} was not checked before")
        new_socket = socket.socket(family, kind, protocol)
        new_socket.setblocking(False)
        return new_socket

    def _is_allowed(self, name: str, port: int, address: Address) -> bool:
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        spellings = (address,) if mapped is None else (address, mapped)
        for entry in self._allowed:
            network = entry.network
            if entry.port not in {0, port}:
                continue
            if network is None and entry.name == name:
                return True
            if network is not None and any(
                spelling.version == network.version and spelling in network for spelling in spellings
            ):
                return True
        return False


class GuardedResolver(AbstractResolver):
    """A resolver that returns only the addresses that may be connected to."""

    def __init__(self, inner: AbstractResolver, guard: AddressGuard) -> None:
        self._inner = inner
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        allowed_results: list[ResolveResult] = []
        refused: AddressRefused | None = None
        for result in await self._inner.resolve(host, port, family):
            try:
                self._guard.check_address(host, port, result["host"])
            except AddressRefused as exc:
                refused = exc
            else:
                allowed_results.append(result)
        if not allowed_results and refused is not None:
            raise refused
        return allowed_results

    async def close(self) -> None:
        await self._inner.close()
