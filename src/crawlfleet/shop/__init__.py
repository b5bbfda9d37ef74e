"""The demo shop and the nasty site: a server of our own, to crawl in the demo and in tests."""

from __future__ import annotations

from crawlfleet.shop.nasty.table import BEHAVIOURS, is_trap
from crawlfleet.shop.page_gate import PageGate
from crawlfleet.shop.server import RunningShop, running_site, site_in_thread, start_shop, start_site
from crawlfleet.shop.site import Site, SiteOptions
from crawlfleet.shop.site_page import Rules

__all__ = [
    "BEHAVIOURS",
    "PageGate",
    "Rules",
    "RunningShop",
    "Site",
    "SiteOptions",
    "is_trap",
    "running_site",
    "site_in_thread",
    "start_shop",
    "start_site",
]
