"""The way between workers and masters, as something that can be cut."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag, auto
from typing import Protocol


class Direction(Flag):
    UP = auto()
    """From a worker to the masters."""
    DOWN = auto()
    BOTH = UP | DOWN


class Network(Protocol):
    name: str
    host: str
    """Where masters listen."""

    async def join(self, worker: str, ports: Sequence[int]) -> Sequence[str]:
        """A place for a worker; the masters' addresses as seen from there."""
        ...

    def within(self, worker: str) -> Sequence[str]:
        """The command that runs another at the worker's place."""
        ...

    async def cut(self, worker: str, direction: Direction) -> None:
        """Nothing gets through and nobody is told: connections stay open, as on a dead line."""
        ...

    async def heal(self, worker: str) -> None: ...

    async def close(self) -> None: ...
