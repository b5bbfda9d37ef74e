"""Sitemaps as they should be. The broken ones are in `nasty/`."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_XML = '<?xml version="1.0" encoding="UTF-8"?>'
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def urlset(entries: Iterable[tuple[str, str | None]]) -> bytes:
    """From addresses, and when each was changed last."""
    return f'{_XML}<urlset xmlns="{NAMESPACE}">{_entries("url", entries)}</urlset>'.encode()


def index(entries: Iterable[tuple[str, str | None]]) -> bytes:
    return f'{_XML}<sitemapindex xmlns="{NAMESPACE}">{_entries("sitemap", entries)}</sitemapindex>'.encode()


def _entries(tag: str, entries: Iterable[tuple[str, str | None]]) -> str:
    return "".join(
        f"<{tag}><loc>{escape(url)}</loc>{f'<lastmod>{lastmod}</lastmod>' if lastmod else ''}</{tag}>\n"
        for url, lastmod in entries
    )
