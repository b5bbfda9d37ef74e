"""The demo shop: a small web site of our own, to crawl in the demo and in tests."""

from __future__ import annotations

from crawlfleet.shop.server import RunningShop, start_shop

__all__ = ["RunningShop", "start_shop"]
