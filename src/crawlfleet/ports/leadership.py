"""Which master leads: one of them does what must be done by one."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from crawlfleet.model.ids import IdSlot
from crawlfleet.model.instants import Instant


class LeaderRow(NamedTuple):
    term: int
    holder: str
    beats: int


class Leadership(Protocol):
    """One row with a term. Holder and challengers judge it by their own monotonic clocks, never by wall time."""

    async def leader(self) -> LeaderRow: ...

    async def campaign(self, holder: str, seen: LeaderRow, now: Instant) -> int | None:
        """Take the next term if the row still is as it was seen; None when somebody was faster."""
        ...

    async def beat(self, term: int) -> bool:
        """Show that the leader lives; False when its term is over."""
        ...

    async def resign(self, term: int) -> None: ...

    async def register_master(self, name: str, now: Instant) -> int:
        """Note the start of a master; the number of this start."""
        ...

    async def take_id_slot(self, boot: int, until: Instant) -> IdSlot:
        """The slot for the ids of this start: one that was never used or, where there is none, the one that was silent
        the longest. `until` is the instant up to which this start may use it before it says more."""
        ...

    async def keep_id_slot(self, slot: int, boot: int, until: Instant) -> bool:
        """Note up to when ids of the slot may exist; False when another start holds it."""
        ...
