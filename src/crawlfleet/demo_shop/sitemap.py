"""Sitemaps: the XML by which a site lists its pages."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

XML = '<?xml version="1.0" encoding="UTF-8"?>'
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def write_urlset(entries: Iterable[tuple[str, str | None]]) -> bytes:
    """Write a sitemap of URLs, each with the date of its last change where there is one."""
    return f'{XML}<urlset xmlns="{NAMESPACE}">{write_entries("url", entries)}</urlset>'.encode()


def write_entries(tag: str, entries: Iterable[tuple[str, str | None]]) -> str:
    return "".join(
        f"<{tag}><loc>{escape(url)}</loc>{f'<lastmod>{lastmod}</lastmod>' if lastmod else ''}</{tag}>\n"
        for url, lastmod in entries
    )
