"""The in-memory broker of one process: it is as fast as a dictionary, and its content is lost with the process."""

from __future__ import annotations

from crawlfleet.broker.memory.broker import MemoryBroker

__all__ = ["MemoryBroker"]
