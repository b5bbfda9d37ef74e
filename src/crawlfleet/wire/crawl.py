"""What a member of a crawl over many nodes and a master tell each other; by position, as in `wire.sync`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from crawlfleet.model.crawl import CrawlUrl

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]

BODY_BYTES = 64 << 20
"""Room for all that one sitemap lists."""
WAIT_MS = 2_000
"""The longest a call that finds nothing to do is parked."""


class ReportBody(msgspec.Struct, array_like=True, frozen=True):
    """A leased chunk that was worked off."""

    number: Count
    pages: Count = 0
    failed: Count = 0
    skipped: Count = 0
    moved: Count = 0
    items: Count = 0
    bytes: Count = 0
    found: list[CrawlUrl] = []
    again: list[CrawlUrl] = []
    """URLs of the chunk that were not visited."""
    pages_new: Count = 0
    pages_changed: Count = 0
    pages_unchanged: Count = 0
    pages_gone: Count = 0


class CrawlUp(msgspec.Struct, array_like=True, frozen=True):
    report: ReportBody | None = None
    held: Annotated[list[Count], msgspec.Meta(max_length=1_000)] = []
    """Chunks it works on, besides the one it reports."""
    wait_ms: Count = 0


class CrawlDown(msgspec.Struct, array_like=True, frozen=True):
    state: str
    """`chunk`, `wait` or `done`."""
    number: int = 0
    urls: list[CrawlUrl] = []
    has_more: bool = True
    """Whether it makes sense to ask for another in advance."""
