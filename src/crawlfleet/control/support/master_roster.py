"""The masters that are alive, as this master last read them: their addresses go to the nodes."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.model.installation.master import MasterRecord
from crawlfleet.wire.sync import mark_masters

MAX_ADDRESSES = 32


class MasterRoster:
    """The addresses of the masters that are alive and have one to offer."""

    def __init__(self) -> None:
        self._addresses: list[str] = []
        self._mark = 0

    def update(self, records: Sequence[MasterRecord]) -> None:
        alive = {record.identity.address for record in records if record.is_alive}
        self._addresses = sorted(alive - {""})[:MAX_ADDRESSES]
        self._mark = mark_masters(self._addresses)

    def addresses_unless(self, mark: int) -> list[str]:
        """Return the addresses, or nothing where `mark` shows that the node has this list."""
        return [] if mark == self._mark else self._addresses
