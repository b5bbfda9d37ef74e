"""How URLs are cut into chunks, and who gets which."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.crawl import CHUNK_URLS, CrawlLimits, CrawlUrl, UrlFlag
from crawlfleet.scheduling.crawls.url_batches import (
    CLOSING,
    SITEMAPS,
    UNORDERED_DEPTH,
    OpenUrlBatch,
    limit_reached,
    next_lease,
    pack_batches,
    url_level,
)

COUNTS = st.lists(st.tuples(st.integers(-1, 5), st.integers(1, CHUNK_URLS)), max_size=20)


def chunks(sizes: list[tuple[int, int]], first: int = 1) -> list[OpenUrlBatch]:
    ordered = sorted(sizes, key=lambda one: one[0])
    return [OpenUrlBatch(number, *one) for number, one in enumerate(ordered, first)]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=500), st.integers(0, 50), st.integers(1, 20))
def test_every_url_is_in_one_chunk_of_its_level(said: list[tuple[int, bool]], waiting: int, members: int) -> None:
    urls = [
        CrawlUrl(f"http://a.test/{n}", depth, flags=int(UrlFlag.SITEMAP) if is_sitemap else 0)
        for n, (depth, is_sitemap) in enumerate(said)
    ]
    found = pack_batches(urls, waiting=waiting, members=members)
    assert sorted(one for chunk in found for one in chunk) == sorted(urls)
    for chunk in found:
        levels = {url_level(one) for one in chunk}
        assert len(levels) == 1
        assert 0 < len(chunk) <= (1 if levels == {SITEMAPS} else CHUNK_URLS)


@given(COUNTS, COUNTS, st.integers(0, 300), st.integers(1, 300), st.integers(1, 20), st.booleans())
def test_nobody_gets_more_than_may_be_read_or_skips_a_level(
    waiting: list[tuple[int, int]], leased: list[tuple[int, int]], pages: int, most: int, members: int, is_busy: bool
) -> None:
    limits = CrawlLimits(members, 5, most)
    open_chunks, held = chunks(waiting), chunks(leased, 100)
    take = next_lease(limits, pages, open_chunks, held, is_busy=is_busy)
    if take is None:
        return
    assert 0 < take.max_urls <= most - pages - sum(chunk.urls for chunk in held)
    taken = [chunk for chunk in open_chunks if chunk.number in take.numbers]
    assert {chunk.depth for chunk in taken} == {open_chunks[0].depth}
    assert all(chunk.depth >= open_chunks[0].depth for chunk in held)
    assert take.max_urls <= 2 * CHUNK_URLS


def test_a_young_crawl_spreads_at_once() -> None:
    urls = [CrawlUrl(f"http://a.test/{n}", 1) for n in range(40)]
    assert [len(chunk) for chunk in pack_batches(urls, waiting=0, members=4)] == [5] * 8
    assert [len(chunk) for chunk in pack_batches(urls, waiting=8, members=4)] == [40]


def test_small_chunks_are_taken_together_but_not_all_by_one() -> None:
    limits = CrawlLimits(2, 5, 1_000)
    take = next_lease(limits, 0, chunks([(0, 1)] * 16), [], is_busy=False)
    assert take == ([1, 2, 3, 4], 4)


def test_one_that_is_busy_gets_nothing_in_advance_of_the_last_urls() -> None:
    limits = CrawlLimits(2, 5, 1_000)
    assert next_lease(limits, 0, chunks([(0, 2)] * 2), [], is_busy=True) == ([1], 1)
    assert next_lease(limits, 0, chunks([(0, 1)] * 3), [], is_busy=True) is None
    assert next_lease(limits, 0, chunks([(0, 1)] * 3), [], is_busy=False) == ([1, 2], 2)


def test_deep_crawls_do_not_wait_between_levels() -> None:
    waiting, leased = [OpenUrlBatch(2, 3, 5)], [OpenUrlBatch(1, 2, 5)]
    assert next_lease(CrawlLimits(1, UNORDERED_DEPTH - 1, 1_000), 0, waiting, leased, is_busy=False) is None
    assert next_lease(CrawlLimits(1, UNORDERED_DEPTH, 1_000), 0, waiting, leased, is_busy=False) == ([2], 5)


def test_limits_are_named() -> None:
    limits = CrawlLimits(1, 5, 10, max_ms=1_000, max_bytes=50)
    assert limit_reached(limits, 9, 49, 999) is None
    assert limit_reached(limits, 10, 0, 0) == "max_pages"
    assert limit_reached(limits, 0, 50, 0) == "max_bytes"
    assert limit_reached(limits, 0, 0, 1_000) == "max_seconds"


def test_what_is_left_to_do_comes_after_every_page_and_whatever_the_limit() -> None:
    closing = CrawlUrl("task-1", 0, flags=int(UrlFlag.CLOSING))
    (page,), (last,) = pack_batches([closing, CrawlUrl("http://a.test/", 1_000)], waiting=0, members=3)
    assert (page.url, last, url_level(last)) == ("http://a.test/", closing, CLOSING)
    limits = CrawlLimits(2, UNORDERED_DEPTH, 10)
    waits, at_work = OpenUrlBatch(7, CLOSING, 1), OpenUrlBatch(3, 4, 1)
    assert next_lease(limits, 10, [waits], [], is_busy=False) == ([7], 1)
    # Pages that others are at may lead to more.
    assert next_lease(limits, 9, [waits], [at_work], is_busy=False) is None
    assert next_lease(limits, 9, [at_work, waits], [], is_busy=False) == ([3], 1)


def level_time(count: int, speeds: list[float], exchange_s: float) -> float:
    """How long members of these speeds (URLs a second) take for a level of so many URLs, by a clock of events.

    Each asks for more while it works, as a member does, and an answer takes `exchange_s`.
    """
    limits = CrawlLimits(len(speeds), 5, 1_000_000)
    urls = [CrawlUrl(f"http://a.test/{n}", 1) for n in range(count)]
    waiting = [
        OpenUrlBatch(n, 1, len(chunk)) for n, chunk in enumerate(pack_batches(urls, waiting=0, members=len(speeds)), 1)
    ]
    held: list[list[OpenUrlBatch]] = [[] for _ in speeds]
    free_at, asks_at = [0.0] * len(speeds), [0.0] * len(speeds)
    number = itertools.count(len(waiting) + 1)
    while waiting:
        now, member = min((at, member) for member, at in enumerate(asks_at))
        # What it has worked off by now.
        held[member] = [] if free_at[member] <= now else held[member][-2:]
        is_busy = free_at[member] > now
        leased = [chunk for chunks in held for chunk in chunks]
        take = next_lease(limits, 0, waiting, leased, is_busy=is_busy)
        if take is None:
            asks_at[member] = max(free_at[member], now + exchange_s)
            continue
        total = sum(chunk.urls for chunk in waiting if chunk.number in take.numbers)
        waiting = [chunk for chunk in waiting if chunk.number not in take.numbers]
        if total > take.max_urls:
            waiting.append(OpenUrlBatch(next(number), 1, total - take.max_urls))
        began = max(free_at[member], now + exchange_s)
        free_at[member] = began + take.max_urls / speeds[member]
        held[member].append(OpenUrlBatch(take.numbers[0], 1, take.max_urls))
        # With two chunks it asks again when the first of them is done.
        asks_at[member] = began if is_busy else now + exchange_s
    return max(free_at)


@pytest.mark.parametrize("speeds", [[33.0, 33.0, 33.0], [40.0, 34.0, 24.0], [60.0, 20.0, 20.0], [25.0] * 4])
@pytest.mark.parametrize("count", [12, 27, 36, 80, 300])
def test_members_reach_the_end_of_a_level_together(count: int, speeds: list[float]) -> None:
    """The next level begins when the last member is done: what it does alone is done at its speed only."""
    ideal_s = count / sum(speeds)
    alone_s = 2 / min(speeds)
    exchanges_s = 0.06
    assert level_time(count, speeds, 0.01) <= 1.1 * ideal_s + alone_s + exchanges_s
