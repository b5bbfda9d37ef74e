"""Rejections: when the answer "this node is unknown" is believed.

One answer proves little: a master of another installation may be at the address for a short time, or one whose database
is being restored. The node is taken for removed only when it was rejected several times over a while, by every master
that answered at all. Its work goes on as long as its lease allows.
"""

from __future__ import annotations

from crawlfleet.ports.clock import Clock

BELIEVED_S = 30.0
BELIEVED_TRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0


class Rejections:
    """Counts rejections since a master last accepted the node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first_at = 0.0
        self._tries = 0

    def record_rejection(self) -> None:
        if not self._tries:
            self._first_at = self._clock.monotonic()
        self._tries += 1

    def clear(self) -> None:
        """Start counting again, after a master accepted the node."""
        self._tries = 0

    @property
    def are_believed(self) -> bool:
        return self._tries >= BELIEVED_TRIES and self._clock.monotonic() - self._first_at >= BELIEVED_S

    @property
    def pause_s(self) -> float:
        """Pause before the next try: masters count wrong secrets by address, and other nodes may share it."""
        doublings = min(max(0, self._tries - 1), 10)
        return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * float(2**doublings))
