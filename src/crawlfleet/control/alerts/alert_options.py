"""What alerts need of a master's process: its settings, its disks and certificates, and ways to the outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.instants import Instant
from crawlfleet.ports.notice_channel import ChannelFactory

Ping = Callable[[], Awaitable[str | None]]
"""Calls the watchdog; returns what went wrong in words, None when it was reached."""


class Certificate(NamedTuple):
    """The certificate of a master."""

    name: str
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class AlertOptions:
    """The parts of alerts that depend on the process they run in. Without a factory nothing is sent."""

    public_url: str = ""
    """Address under which people reach the installation, for the links of notices."""
    installation: str = ""
    """Name of the installation in notices."""
    factory: ChannelFactory | None = None
    ping: Ping | None = None
    certificates: Callable[[], Iterable[Certificate]] = tuple
