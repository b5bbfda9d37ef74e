"""Cuts the URLs of a crawl over many nodes into batches, and decides which of them a member leases next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import ceil
from typing import NamedTuple

from crawlfleet.model.crawl import CHUNK_URLS, CrawlLimits, CrawlUrl, UrlFlag

UNORDERED_DEPTH = 100
"""Depth limit from which on the exact number of links does not matter: members need not wait for each other between
levels."""


MIN_URLS = 2

SITEMAPS = -1
"""Level of sitemaps: before all pages, as what they list is as near as a start URL."""


CLOSING = 1 << 30
"""Level of what is left to do after all pages."""


def url_level(url: CrawlUrl) -> int:
    if url.flags & UrlFlag.CLOSING:
        return CLOSING
    return SITEMAPS if url.flags & UrlFlag.SITEMAP else url.depth


class OpenUrlBatch(NamedTuple):
    """A batch of URLs that is not done yet: its number, level and size."""

    number: int
    depth: int
    urls: int


class UrlLease(NamedTuple):
    """Batches that are leased together as one, and how many URLs of them at most."""

    numbers: Sequence[int]
    max_urls: int


def pack_batches(urls: Iterable[CrawlUrl], *, waiting: int, members: int) -> list[list[CrawlUrl]]:
    """Pack URLs into batches of one depth each. Small while few wait, so that a young crawl spreads at once."""
    batches: list[list[CrawlUrl]] = []
    for level, urls_of_level in groupby(sorted(urls, key=url_level), key=url_level):
        pages = list(urls_of_level)
        if level == SITEMAPS:
            # What a sitemap lists is reported in one piece: one is enough for a batch.
            size = 1
        else:
            size = CHUNK_URLS if waiting + len(batches) >= 2 * members else _share_size(len(pages), members)
        batches += [pages[start : start + size] for start in range(0, len(pages), size)]
    return batches


def next_lease(
    limits: CrawlLimits, pages: int, waiting: Sequence[OpenUrlBatch], leased: Sequence[OpenUrlBatch], *, is_busy: bool
) -> UrlLease | None:
    """The next lease of a member; None when it has to wait. `waiting` is in order, the nearest first.

    Guided self-scheduling: a share is a part of what is left of the level, so shares shrink towards its end and members
    of different speed reach it together. A busy member asks for more in advance: it gets some only while there is
    enough for all.
    """
    if waiting and waiting[0].depth == CLOSING:
        # Pages that other members have leased may lead to more.
        return None if leased else UrlLease([waiting[0].number], 1)
    pages_left = limits.max_pages - pages - sum(batch.urls for batch in leased)
    if not waiting or pages_left <= 0:
        return None
    depth = waiting[0].depth
    # A page that is found early at a greater depth would lead less far than it should.
    if limits.depth < UNORDERED_DEPTH and any(batch.depth < depth for batch in leased):
        return None
    level = [batch for batch in waiting if batch.depth == depth]
    left = sum(batch.urls for batch in level)
    if is_busy and left < 2 * limits.members:
        return None
    # In advance it gets half as much, unless it is alone: its speed shows when it is done with what it has.
    is_careful = is_busy and limits.members > 1
    share = _share_size(left, 2 * limits.members if is_careful else limits.members)
    numbers, total = [level[0].number], level[0].urls
    for batch in level[1:]:
        if total + batch.urls > min(share, pages_left):
            break
        numbers.append(batch.number)
        total += batch.urls
    return UrlLease(numbers, min(pages_left, total if 2 * total <= 3 * share else share))


class WorkForecast(NamedTuple):
    """Whether members would get work, after one of them got its lease."""

    for_waiting: bool
    """Whether an idle member would get something."""
    for_busy: bool
    """Whether a busy member would get something in advance."""


def forecast_work(
    limits: CrawlLimits, pages: int, waiting: Sequence[OpenUrlBatch], leased: Sequence[OpenUrlBatch]
) -> WorkForecast:
    """Whether members would get work: no member has to ask in vain, which costs a transaction each time."""
    return WorkForecast(
        next_lease(limits, pages, waiting, leased, is_busy=False) is not None,
        next_lease(limits, pages, waiting, leased, is_busy=True) is not None,
    )


def limit_reached(limits: CrawlLimits, pages: int, size_bytes: int, spent_ms: int) -> str | None:
    if pages >= limits.max_pages:
        return "max_pages"
    if limits.max_bytes is not None and size_bytes >= limits.max_bytes:
        return "max_bytes"
    if limits.max_ms is not None and spent_ms >= limits.max_ms:
        return "max_seconds"
    return None


def _share_size(count: int, members: int) -> int:
    """Half of an equal part, as the other half is for the member that is done first; all of it for one alone. Not less
    than two, where an equal part has two: each batch costs an exchange."""
    part = ceil(count / members)
    half = ceil(count / (2 * members)) if members > 1 else part
    return min(CHUNK_URLS, max(1, half, min(part, MIN_URLS)))
