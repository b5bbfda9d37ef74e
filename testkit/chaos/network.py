"""The network between workers and masters, as a protocol of operations that cut it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag, auto
from typing import Protocol


class Direction(Flag):
    """The direction in which the network is cut."""

    UP = auto()
    """Messages from a worker to the masters."""
    DOWN = auto()
    """Messages from the masters to a worker."""
    BOTH = UP | DOWN


class Network(Protocol):
    """A network between workers and masters that can be cut."""

    name: str
    host: str
    """Address on which masters listen."""

    async def join(self, worker: str, ports: Sequence[int]) -> Sequence[str]:
        """Connect a worker; returns the masters' addresses as seen from it."""
        ...

    def within(self, worker: str) -> Sequence[str]:
        """Return the command that runs another one in the worker's network."""
        ...

    async def cut(self, worker: str, direction: Direction) -> None:
        """Cut the line without any signal to either side: connections stay open, as on a dead line."""
        ...

    async def heal(self, worker: str) -> None: ...

    async def close(self) -> None: ...
