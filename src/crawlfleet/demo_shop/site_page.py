"""A page as the site keeps it."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.demo_shop.http_messages import HTML

ORIGIN, HOST = "%%ORIGIN%%", "%%HOST%%"
"""In a body: replaced by the scheme and host, or by the host, that the page was asked from."""


class Page(NamedTuple):
    body: bytes
    content_type: str = HTML
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    is_gzipped: bool = False
    """A file of its own that is a gzip, not an encoding on the way."""


def html_page(text: str) -> Page:
    return Page(text.encode())
