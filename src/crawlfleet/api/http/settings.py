"""The settings of a master's HTTP side that an operator may change."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network


@dataclass(frozen=True, slots=True)
class ApiSettings:
    allowed_networks: tuple[IPv4Network | IPv6Network | str, ...] = ()
    """Networks from which calls are accepted; empty: any address with a valid token."""
    failed_attempts_per_minute: int = 20
    """Number of wrong tokens accepted from one address in a minute before it has to wait."""
    body_limit_bytes: int = 10_000_000
    has_docs: bool = True
    """Whether the API's documentation is served at /docs, without a token."""
