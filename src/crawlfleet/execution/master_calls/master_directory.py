"""The addresses of masters: those that the node was configured with, and those that masters report.

Masters report which of them are alive. A node then survives the loss of all the masters it was configured with, and
forgets reported ones that are gone; it never forgets a configured one. The list is kept on disk for the next start. It
counts only while the configuration is the same: another one may be another installation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import structlog
from yarl import URL

from crawlfleet.errors import ConfigError
from crawlfleet.execution.master_calls.http_calls import normalise_master_url
from crawlfleet.settings.private_files import write_private
from crawlfleet.wire.sync import mark_masters

log = structlog.get_logger()

FILE = "masters.json"
MAX_REPORTED = 32
MAX_ADDRESS_CHARS = 300


class ReportedMasters(msgspec.Struct, frozen=True):
    """The contents of the file."""

    configured: list[str]
    reported: list[str]


class MasterFile:
    """The file with the reported masters, in the data directory of the node."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def load(self, configured: Sequence[str]) -> list[str]:
        """Return the reported masters; none where the file is missing, damaged or of another configuration."""
        try:
            saved = msgspec.json.decode(self._path.read_bytes(), type=ReportedMasters)
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
            # The list is only a help: the configured masters are enough to begin with.
            log.warning("masters_not_read", file=str(self._path), error=str(exc))
            return []
        return saved.reported if saved.configured == list(configured) else []

    def save(self, configured: Sequence[str], reported: Sequence[str]) -> None:
        body = msgspec.json.encode(ReportedMasters(list(configured), list(reported)))
        try:
            write_private(self._path, msgspec.json.format(body).decode())
        except OSError as exc:
            log.warning("masters_not_saved", file=str(self._path), error=str(exc))


class MasterDirectory:
    """The addresses of masters that the node may call."""

    def __init__(
        self,
        configured: Sequence[str],
        reported: Sequence[str] = (),
        on_change: Callable[[Sequence[str], Sequence[str]], None] | None = None,
    ) -> None:
        self.configured = list(configured)
        self._on_change = on_change
        self._reported: list[str] = []
        self.urls: list[str] = []
        self._set_reported(reported)

    @property
    def mark(self) -> int:
        """Mark of the list that was reported last."""
        return mark_masters(self._reported)

    def update(self, reported: Sequence[str]) -> bool:
        """Take the list that a master reported in place of the one before; returns whether it changed anything."""
        reported = list(reported)[:MAX_REPORTED]
        if not reported or reported == self._reported:
            return False
        self._set_reported(reported)
        log.info("masters_reported", masters=self.urls)
        if self._on_change is not None:
            self._on_change(self.configured, self._reported)
        return True

    def _set_reported(self, reported: Sequence[str]) -> None:
        self._reported = list(reported)[:MAX_REPORTED]
        usable = [url for url in map(self._check_address, self._reported) if url is not None]
        self.urls = list(dict.fromkeys([*self.configured, *usable]))

    def _check_address(self, address: str) -> str | None:
        """Return the address as it is called; None for one that a node must not send its secret to."""
        if len(address) > MAX_ADDRESS_CHARS:
            return None
        try:
            url = normalise_master_url(address)
        except ConfigError:
            return None
        parsed = URL(url)
        if parsed.user is not None or parsed.query_string or parsed.fragment:
            return None
        may_be_plain = any(configured.startswith("http://") for configured in self.configured)
        return url if parsed.scheme == "https" or may_be_plain else None


def next_url(urls: Sequence[str], failed: str) -> str:
    """Return the master to try after this one; the first one, where this one is not in the list any more."""
    return urls[(urls.index(failed) + 1) % len(urls)] if failed in urls else urls[0]
