"""The broker of one process: as fast as a dictionary, and gone with it."""

from __future__ import annotations

from crawlfleet.broker.memory.broker import MemoryBroker

__all__ = ["MemoryBroker"]
