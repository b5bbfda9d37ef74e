"""crawlfleet: a distributed crawler cluster manager."""

__version__ = "0.1.0"
