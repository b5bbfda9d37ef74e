"""Leader election: one master at a time does what only one may do."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from crawlfleet.model.ids import IdSlot
from crawlfleet.model.installation.master import MasterFigures, MasterIdentity, MasterRecord
from crawlfleet.model.instants import Instant

KEEP_SILENT_MS = 3_600_000
"""Span for which the row of a silent master is kept."""
MAX_MASTERS_LISTED = 200


class LeaderRow(NamedTuple):
    """The row that decides which master leads."""

    term: int
    """Number of the leadership."""
    holder: str
    """Name of the leading master."""
    beats: int
    """Number of heartbeats of the leader; a challenger watches whether it grows."""


class LeadershipStore(Protocol):
    """Access to the leader row, and to the starts and id slots of masters.

    Holder and challengers judge the row by their own monotonic clocks, never by wall time.
    """

    async def read_leader(self) -> LeaderRow: ...

    async def campaign(self, holder: str, seen: LeaderRow, now: Instant) -> int | None:
        """Take the next term if the row is unchanged since it was read; None when another master was faster."""
        ...

    async def record_beat(self, term: int) -> bool:
        """Show that the leader is alive; False when its term is over."""
        ...

    async def resign(self, term: int) -> None: ...

    async def register_master(self, name: str, now: Instant) -> int:
        """Record the start of a master; returns the number of this start."""
        ...

    async def record_master_beat(
        self, master: MasterIdentity, figures: MasterFigures, now: Instant, *, keep_silent_ms: int = KEEP_SILENT_MS
    ) -> None:
        """Show that this start of a master is alive, with its figures; rows of others that were silent are removed.

        The instant is that of the database's clock, where it has one: `now` is only used where all masters of the
        store share one machine.
        """
        ...

    async def record_master_stop(self, boot: int) -> None:
        """Record that this start of a master has ended in good order: it is not listed any more."""
        ...

    async def list_masters(self, now: Instant) -> list[MasterRecord]:
        """Return the starts of masters that have not stopped, those seen last first.

        At most `MAX_MASTERS_LISTED` are returned: masters that keep crashing leave a row for each start.
        """
        ...

    def commit_p99_ms(self) -> float | None:
        """Return the time that the slowest of a hundred transactions of this process took in the last five minutes.

        None when there were less than a hundred.
        """
        ...

    async def take_id_slot(self, boot: int, until: Instant) -> IdSlot:
        """Take the slot for the ids of this start.

        It is a slot that was never used or, where there is none, the one that was silent the longest. `until` is the
        instant up to which this start may use it before it calls `keep_id_slot`.
        """
        ...

    async def keep_id_slot(self, slot: int, boot: int, until: Instant) -> bool:
        """Record up to when ids of the slot may exist; False when another start holds it."""
        ...
