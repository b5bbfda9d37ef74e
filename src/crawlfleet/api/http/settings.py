"""What an operator may set about the HTTP side of a master."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network


@dataclass(frozen=True, slots=True)
class ApiSettings:
    allowed_networks: tuple[IPv4Network | IPv6Network | str, ...] = ()
    """Who may call, by address; empty: anybody with a token."""
    failed_attempts_per_minute: int = 20
    """Wrong tokens taken from one address before it has to wait."""
    body_limit_bytes: int = 10_000_000
    has_docs: bool = True
    """Serve the API's documentation at /docs, without a token."""
