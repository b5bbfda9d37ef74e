"""Decides whether a wall clock may be trusted to judge that something is old enough to be deleted.

A wall clock that jumps ahead, if only for a minute, makes everything look old. So it is believed while it runs as
fast as the monotonic clock does. After a jump ahead it is believed again once it has run steadily for an hour: a
machine that was suspended looks just like this, and retention must go on there. A clock that went back is believed
at once: what it makes look young is kept for longer, and nothing is lost.

Across restarts and changes of the leader the comparison is with the mark: the newest instant that a leader believed,
which the store keeps.
"""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.model.instants import Instant

TOLERANCE_MS = 60_000
DRIFT = 0.02
"""Share by which a wall clock that is being corrected bit by bit may run faster than the monotonic clock."""
RESTART_GAP_MS = 3_600_000
"""Distance ahead of the mark at which a clock is believed at once: a restart, or another leader."""
PROBATION_S = 3_600.0


class _ClockReading(NamedTuple):
    wall: Instant
    monotonic: float

    def ahead_ms(self, earlier: _ClockReading) -> float:
        """How much further the wall clock went than the monotonic clock since the earlier reading."""
        return self.wall - earlier.wall - (self.monotonic - earlier.monotonic) * 1000

    def tolerance_ms(self, earlier: _ClockReading) -> float:
        return TOLERANCE_MS + DRIFT * (self.monotonic - earlier.monotonic) * 1000


class ClockTrust:
    """Follows one clock by its readings, from the first one on."""

    def __init__(self) -> None:
        self._believed: _ClockReading | None = None
        self._doubted: _ClockReading | None = None
        self._steady_since = 0.0

    def observe(self, wall: Instant, monotonic: float, mark: Instant | None) -> bool:
        """Whether this reading of the wall clock is believed."""
        reading = _ClockReading(wall, monotonic)
        if self._agrees(reading, mark) or self._has_been_steady(reading):
            self._believed, self._doubted = reading, None
            return True
        return False

    def _agrees(self, reading: _ClockReading, mark: Instant | None) -> bool:
        if self._believed is None:
            return mark is not None and reading.wall <= mark + RESTART_GAP_MS
        return reading.ahead_ms(self._believed) <= reading.tolerance_ms(self._believed)

    def _has_been_steady(self, reading: _ClockReading) -> bool:
        last, self._doubted = self._doubted, reading
        if last is None or abs(reading.ahead_ms(last)) > reading.tolerance_ms(last):
            self._steady_since = reading.monotonic
        return reading.monotonic - self._steady_since >= PROBATION_S
