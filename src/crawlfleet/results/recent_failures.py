"""The most recent failure of the chunk store, for the health report of the master."""

from __future__ import annotations

import time
from collections.abc import Callable

REMEMBERED_S = 60.0


class RecentFailure:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._message: str | None = None
        self._noted_at = 0.0

    @property
    def recent_message(self) -> str | None:
        # Without calls to the chunk store no success would clear the failure, so that an old one is not reported.
        return self._message if self._clock() - self._noted_at < REMEMBERED_S else None

    def note_failure(self, message: str) -> None:
        self._message, self._noted_at = message, self._clock()

    def clear(self) -> None:
        self._message = None
