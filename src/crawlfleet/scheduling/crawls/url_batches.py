"""Cuts the URLs of a crawl over many nodes into batches, and decides which of them a member leases next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import ceil
from typing import NamedTuple

from crawlfleet.model.crawl import CHUNK_URLS, CrawlLimits, CrawlUrl, UrlFlag

DEEP = 100
"""Depth limit from which on the exact number of links does not matter: members need not wait for each other between
levels."""


LEAST_URLS = 2

SITEMAPS = -1
"""Level of sitemaps: before all pages, as what they list is as near as a start URL."""


CLOSING = 1 << 30
"""Level of what is left to do after all pages."""


def level_of(one: CrawlUrl) -> int:
    if one.flags & UrlFlag.CLOSING:
        return CLOSING
    return SITEMAPS if one.flags & UrlFlag.SITEMAP else one.depth


class OpenChunk(NamedTuple):
    number: int
    depth: int
    urls: int


class Take(NamedTuple):
    """Batches that are leased together as one, and how many URLs of them at most."""

    numbers: Sequence[int]
    most: int


def pack(urls: Iterable[CrawlUrl], *, waiting: int, members: int) -> list[list[CrawlUrl]]:
    """Pack URLs into batches of one depth each. Small while few wait, so that a young crawl spreads at once."""
    chunks: list[list[CrawlUrl]] = []
    for level, same in groupby(sorted(urls, key=level_of), key=level_of):
        pages = list(same)
        if level == SITEMAPS:
            # What a sitemap lists is reported in one piece: one is enough for a batch.
            size = 1
        else:
            size = CHUNK_URLS if waiting + len(chunks) >= 2 * members else _share(len(pages), members)
        chunks += [pages[at : at + size] for at in range(0, len(pages), size)]
    return chunks


def next_take(
    limits: CrawlLimits, pages: int, waiting: Sequence[OpenChunk], leased: Sequence[OpenChunk], *, is_busy: bool
) -> Take | None:
    """The next lease of a member; None when it has to wait. `waiting` is in order, the nearest first.

    Guided self-scheduling: a share is a part of what is left of the level, so shares shrink towards its end and members
    of different speed reach it together. A busy member asks for more in advance: it gets some only while there is
    enough for all.
    """
    if waiting and waiting[0].depth == CLOSING:
        # Pages that other members have leased may lead to more.
        return None if leased else Take([waiting[0].number], 1)
    room = limits.max_pages - pages - sum(chunk.urls for chunk in leased)
    if not waiting or room <= 0:
        return None
    depth = waiting[0].depth
    # A page that is found early at a greater depth would lead less far than it should.
    if limits.depth < DEEP and any(chunk.depth < depth for chunk in leased):
        return None
    level = [chunk for chunk in waiting if chunk.depth == depth]
    left = sum(chunk.urls for chunk in level)
    if is_busy and left < 2 * limits.members:
        return None
    # In advance it gets half as much, unless it is alone: its speed shows when it is done with what it has.
    is_careful = is_busy and limits.members > 1
    share = _share(left, 2 * limits.members if is_careful else limits.members)
    numbers, total = [level[0].number], level[0].urls
    for chunk in level[1:]:
        if total + chunk.urls > min(share, room):
            break
        numbers.append(chunk.number)
        total += chunk.urls
    return Take(numbers, min(room, total if 2 * total <= 3 * share else share))


class Outlook(NamedTuple):
    """Whether members would get work, after one of them got its lease."""

    for_waiting: bool
    """Whether an idle member would get something."""
    for_busy: bool
    """Whether a busy member would get something in advance."""


def outlook(limits: CrawlLimits, pages: int, waiting: Sequence[OpenChunk], leased: Sequence[OpenChunk]) -> Outlook:
    """Whether members would get work: none has to ask in vain, which costs a transaction each time."""
    return Outlook(
        next_take(limits, pages, waiting, leased, is_busy=False) is not None,
        next_take(limits, pages, waiting, leased, is_busy=True) is not None,
    )


def limit_reached(limits: CrawlLimits, pages: int, size_bytes: int, spent_ms: int) -> str | None:
    if pages >= limits.max_pages:
        return "max_pages"
    if limits.max_bytes is not None and size_bytes >= limits.max_bytes:
        return "max_bytes"
    if limits.max_ms is not None and spent_ms >= limits.max_ms:
        return "max_seconds"
    return None


def _share(count: int, members: int) -> int:
    """Half of an equal part, as the other half is for the member that is done first; all of it for one alone. Not less
    than two, where an equal part has two: each batch costs an exchange."""
    part = ceil(count / members)
    half = ceil(count / (2 * members)) if members > 1 else part
    return min(CHUNK_URLS, max(1, half, min(part, LEAST_URLS)))
