"""What the place of the results failed on lately, for whoever asks how the master is."""

from __future__ import annotations

import time
from collections.abc import Callable

REMEMBERED_S = 60.0


class Trouble:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: str | None = None
        self._at = 0.0

    @property
    def told(self) -> str | None:
        # Without work nobody finds out that it is over, so that an old complaint says nothing.
        return self._told if self._clock() - self._at < REMEMBERED_S else None

    def note(self, told: str) -> None:
        self._told, self._at = told, self._clock()

    def clear(self) -> None:
        self._told = None
