"""Grants of one host's budget over time: versions, acknowledgements, and what may still be in use.

A holder uses what it was granted until a newer version replaces it. What it may use is the most of all it was granted,
until it has acknowledged the version of its last cut; from then on it is what it has, and for a window more of the
rate: as much as it reports to have used. A holder that reports nothing is taken to have used all. Time comes in: any
monotonic clock of the divider.

For every second and every holder: the requests sent in it are at most what the holder may use at its end. A holder that
was cut from 100 to 10 and had used 7 of the 100 may use 17 then, and the other 83 are free for others at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from crawlfleet.model.host import NONE, Units
from crawlfleet.scheduling.hosts.budget_division import (
    WINDOW_S,
    Holder,
    KeyT,
    divide_budget,
    total_units,
    turn_length_s,
)


@dataclass(slots=True)
class HolderShare(Holder):
    """The share of one holder, with the version and the acknowledgement of its last cut."""

    cut_version: int = 0
    """Version of the last cut."""
    free_at: float | None = None
    """Monotonic time at which the cut units are free; None while the cut is not acknowledged."""
    is_ended: bool = False
    """Whether the holder is gone: nothing is ever granted to it again."""
    sent_pacing: tuple[int, int] = (-1, -1)
    """Pacing of the host as sent with the newest version."""

    @property
    def is_cut(self) -> bool:
        return self.may_use != self.current


@dataclass(slots=True)
class HostShares(Generic[KeyT]):
    """The shares of one host's budget, by holder."""

    pool: Units = NONE
    spacing_ms: int = 0
    """Milliseconds between two requests of the one holder, for a budget that cannot be divided; 0: by its units."""
    away_until: int = 0
    """End of a back-off, by the clock of the divider, for holders to know; 0: none."""
    holders: dict[KeyT, HolderShare] = field(default_factory=dict)

    @property
    def window_s(self) -> float:
        return max(WINDOW_S, self.spacing_ms / 1000)

    @property
    def pacing(self) -> tuple[int, int]:
        return self.spacing_ms, self.away_until

    @property
    def may_use(self) -> Units:
        return total_units([share.may_use for share in self.holders.values()])

    @property
    def is_in_effect(self) -> bool:
        """Whether the units that holders have acknowledged fit into the pool by now."""
        held = [
            share.may_use if share.is_cut and share.free_at is None else share.current
            for share in self.holders.values()
        ]
        return total_units(held).fits_within(self.pool)

    def set_wanted(self, key: KeyT, wanted: int | None, now: float) -> bool:
        """Set what a holder wants, and add the holder if it is new. True when that is a change."""
        share = self.holders.get(key)
        if share is None:
            if wanted is None:
                return False
            share = self.holders[key] = HolderShare(since=now)
        is_changed = share.wanted != wanted
        share.wanted = wanted
        return is_changed

    def acknowledge_version(self, key: KeyT, version: int, now: float, in_use: int | None = None) -> bool:
        """Note that a holder has applied this version. True when that is a change. `in_use` is the most that leaves in
        any second from here on, unless the holder is granted more: for a holder that divides by these rules itself."""
        share = self._unacknowledged_cut(key, version)
        if share is None:
            return False
        self._free_cut(share, now, None if in_use is None else max(in_use, share.current.rate), 0)
        return True

    def acknowledge_used(self, key: KeyT, version: int, now: float, used: int | None) -> bool:
        """Note that a holder has applied this version. True when that is a change. `used` is how many requests left
        within the window, from a holder that only counts: whatever it is granted before the window is over comes on
        top of them."""
        share = self._unacknowledged_cut(key, version)
        if share is None:
            return False
        self._free_cut(share, now, None if used is None else share.current.rate + used, used or 0)
        return True

    def _unacknowledged_cut(self, key: KeyT, version: int) -> HolderShare | None:
        share = self.holders.get(key)
        is_acknowledged = share is not None and share.is_cut and share.free_at is None and version >= share.cut_version
        return share if is_acknowledged else None

    def _free_cut(self, share: HolderShare, now: float, rate: int | None, used: int) -> None:
        share.free_at = now + self.window_s
        # Concurrency counts requests under way: a cut that is in effect is over.
        share.may_use = share.may_use._replace(concurrency=share.current.concurrency)
        # Where requests are seconds apart, the last second is too short a window.
        if rate is not None and not self.spacing_ms and rate < share.may_use.rate:
            share.may_use, share.spent = share.may_use._replace(rate=rate), used
        if not share.is_cut:
            share.free_at, share.spent = None, 0

    def end_holder(self, key: KeyT, now: float, within_s: float = 0.0) -> bool:
        """End a holder that is gone at the latest `within_s` from now. True when that is a change."""
        share = self.holders.get(key)
        if share is None or share.is_ended:
            return False
        share.wanted, share.current, share.is_ended = None, NONE, True
        share.free_at = now + within_s + self.window_s
        return True

    def release_freed(self, now: float) -> set[KeyT]:
        """Free cut units whose window is over, and drop holders that have and want nothing; returns those changed."""
        changed = set()
        for key, share in list(self.holders.items()):
            if share.is_cut and share.free_at is not None and share.free_at <= now:
                share.may_use, share.free_at, share.spent = share.current, None, 0
                changed.add(key)
            if share.wanted is None and share.may_use == NONE:
                del self.holders[key]
                changed.add(key)
        return changed

    def divide_pool(self, now: float, next_versions: dict[KeyT, int]) -> set[KeyT]:
        """Divide the pool among the holders; returns those whose grant changed. `next_versions` has the version that a
        changed grant of each holder gets."""
        granted = divide_budget(self.pool, self.holders, now, turn_length_s(self.spacing_ms / 1000))
        changed = set()
        for key, units in granted.items():
            share = self.holders[key]
            if share.is_ended or (
                units == share.current and (share.sent_pacing == self.pacing or share.wanted is None)
            ):
                continue
            if bool(units) != bool(share.current):
                share.since = now
            if not share.current.fits_within(units):
                share.cut_version, share.free_at = next_versions[key], None
            share.may_use = share.may_use.larger_units(units._replace(rate=units.rate + share.spent))
            share.current, share.sent_pacing = units, self.pacing
            changed.add(key)
        return changed

    def next_due_at(self, now: float) -> float | None:
        """Monotonic time at which the host is due again without any change reported; None: never."""
        times = [share.free_at for share in self.holders.values() if share.is_cut and share.free_at is not None]
        if any(share.wanted and not share.current for share in self.holders.values()):
            turn = turn_length_s(self.spacing_ms / 1000)
            times += [share.since + turn for share in self.holders.values() if share.current]
        return min(times, default=None)
