"""A page of a site, before it becomes a response."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.demo_shop.http_messages import HTML

ORIGIN, HOST = "%%ORIGIN%%", "%%HOST%%"
"""Placeholders in a body, replaced by the scheme and host, or by the host, that the request was sent to."""


class Page(NamedTuple):
    """A page: body, type, status and headers."""

    body: bytes
    content_type: str = HTML
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    is_gzipped: bool = False
    """Whether the page is itself a gzip file; not a content encoding of the transfer."""


def html_page(text: str) -> Page:
    return Page(text.encode())
