"""The masters an agent may ask, all equal: the one in use, and how long to wait before asking again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from crawlfleet.errors import ConfigError
from crawlfleet.ports.transport import MasterTransport


class Masters:
    def __init__(self, transports: Sequence[MasterTransport], rng: Random) -> None:
        if not transports:
            raise ConfigError("masters: an agent needs the address of at least one master")
        self._transports = list(transports)
        self._rng = rng
        self.current = 0

    def __getitem__(self, place: int) -> MasterTransport:
        return self._transports[place]

    def move_on(self, place: int) -> None:
        """The master at `place` failed: use the next one, unless that was done already."""
        if place == self.current:
            self.current = (place + 1) % len(self._transports)

    def backoff_s(self, failures: int, first_s: float, longest_s: float) -> float:
        """Doubled with each failure, and spread, so that nodes that failed together do not come back together."""
        return self.spread(min(longest_s, first_s * 2 ** min(failures - 1, 30)))

    def spread(self, span_s: float) -> float:
        return span_s * (0.5 + self._rng.random())
