"""Queues: what tasks stand in until they are placed."""

from __future__ import annotations

from typing import NamedTuple


class Queue(NamedTuple):
    """One that nobody touched is open, and first in first out."""

    name: str
    is_paused: bool = False
    is_lifo: bool = False
    """Last in, first out: what came last is placed first."""

    @property
    def order(self) -> str:
        return "lifo" if self.is_lifo else "fifo"
