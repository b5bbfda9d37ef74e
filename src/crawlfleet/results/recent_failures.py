"""The most recent failure of the chunk store, for the health report of the master."""

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
        # Without calls to the chunk store no success would clear the failure, so that an old one is not reported.
        return self._told if self._clock() - self._at < REMEMBERED_S else None

    def note(self, told: str) -> None:
        self._told, self._at = told, self._clock()

    def clear(self) -> None:
        self._told = None
