"""Sitemap indexes: the XML that lists the sitemaps of a large site. The broken ones are in `nasty/`."""

from __future__ import annotations

from collections.abc import Iterable

from crawlfleet.demo_shop.sitemap import NAMESPACE, XML, write_entries


def write_index(entries: Iterable[tuple[str, str | None]]) -> bytes:
    """Write an index of URLs, each with the date of its last change where there is one."""
    return f'{XML}<sitemapindex xmlns="{NAMESPACE}">{write_entries("sitemap", entries)}</sitemapindex>'.encode()
