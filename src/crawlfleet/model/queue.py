"""Queues: named lines in which tasks wait until they are placed."""

from __future__ import annotations

from typing import NamedTuple


class Queue(NamedTuple):
    """A queue. One that was never changed is open, and first in first out."""

    name: str
    is_paused: bool = False
    is_lifo: bool = False
    """Whether the order is last in, first out: the newest task is placed first."""

    @property
    def order(self) -> str:
        return "lifo" if self.is_lifo else "fifo"
