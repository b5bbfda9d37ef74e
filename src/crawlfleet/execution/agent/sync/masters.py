"""The masters of an agent, all equal: the one in use, and the back-off before the next call."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from crawlfleet.errors import ConfigError
from crawlfleet.ports.transport import MasterTransport


class Masters:
    """The transports of all masters, with the index of the one in use."""

    def __init__(self, transports: Sequence[MasterTransport], rng: Random) -> None:
        if not transports:
            raise ConfigError("masters: an agent needs the address of at least one master")
        self._transports = list(transports)
        self._rng = rng
        self.current_index = 0

    def __len__(self) -> int:
        return len(self._transports)

    def __getitem__(self, index: int) -> MasterTransport:
        return self._transports[index]

    def move_on(self, index: int) -> None:
        """Switch to the next master after the one at `index` failed, unless that was done already."""
        if index == self.current_index:
            self.current_index = (index + 1) % len(self._transports)

    def backoff_s(self, failures: int, first_s: float, longest_s: float) -> float:
        """Exponential back-off with jitter, so that nodes that failed together do not come back together."""
        return self.add_jitter(min(longest_s, first_s * 2 ** min(failures - 1, 30)))

    def add_jitter(self, span_s: float) -> float:
        return span_s * (0.5 + self._rng.random())
