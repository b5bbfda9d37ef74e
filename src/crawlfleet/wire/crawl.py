"""Messages between a member of a crawl over many nodes and a master; fields by position, as in `wire.sync`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from crawlfleet.model.crawl import CrawlUrl

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]

BODY_BYTES = 64 << 20
"""Maximum size of a body, enough for all URLs that one sitemap lists."""
WAIT_MS = 2_000
"""Maximum time in milliseconds that the master holds back a call when there is no URL batch for it."""


class ReportBody(msgspec.Struct, array_like=True, frozen=True):
    """Report of a leased URL batch that was worked off."""

    number: Count
    pages: Count = 0
    failed: Count = 0
    skipped: Count = 0
    moved: Count = 0
    items: Count = 0
    bytes: Count = 0
    found: list[CrawlUrl] = []
    again: list[CrawlUrl] = []
    """URLs of the batch that were not visited."""
    pages_new: Count = 0
    pages_changed: Count = 0
    pages_unchanged: Count = 0
    pages_gone: Count = 0


class CrawlUp(msgspec.Struct, array_like=True, frozen=True):
    report: ReportBody | None = None
    held: Annotated[list[Count], msgspec.Meta(max_length=1_000)] = []
    """Numbers of the URL batches that the member works on, besides the one it reports."""
    wait_ms: Count = 0


class CrawlDown(msgspec.Struct, array_like=True, frozen=True):
    state: str
    """State of the crawl for the member: `chunk` (a URL batch follows), `wait` or `done`."""
    number: int = 0
    urls: list[CrawlUrl] = []
    has_more: bool = True
    """Whether it makes sense to ask for another URL batch in advance."""
