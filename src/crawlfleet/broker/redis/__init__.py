"""The broker of many masters, on one Redis. While Redis is away, each master works with hints of its own."""

from __future__ import annotations

from crawlfleet.broker.redis.broker import RedisBroker
from crawlfleet.broker.redis.connection import LinkState

__all__ = ["LinkState", "RedisBroker"]
