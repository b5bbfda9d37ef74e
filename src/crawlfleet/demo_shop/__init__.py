"""The demo shop: a small well-behaved web site on loopback, for `crawlfleet demo`, the documentation and the examples.

`catalogue` makes the products from a seed, `page_html` and `sitemap` write them, `storefront` finds the page of a path,
`page_answers` and `site` turn it into an HTTP response, `connection` and `server` serve it.
"""

from __future__ import annotations

from crawlfleet.demo_shop.server import RunningShop, start_shop

__all__ = ["RunningShop", "start_shop"]
