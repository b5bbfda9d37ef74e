"""What an execution fetches of its project's day: never more than granted, asked for in time, given back if unsent."""

from __future__ import annotations

import asyncio

import pytest

from crawlfleet.execution.budget.quota_meter import (
    BYTES,
    MAX_RETRIES,
    PAGES,
    RETRY_S,
    OverQuota,
    QuotaMeter,
    QuotaRefusal,
)
from crawlfleet.model.daily_quota import FIRST
from tests.unit.execution.agent.agent_kit import monotonic, virtual

NONE_LEFT = "quota 'pages per day' of project p: 0 of 10 left until 00:00 UTC"


class Day:
    """A master that grants at most `slice` pages at a time of a day; it answers when it is told to, or at once."""

    def __init__(self, pages: int, slice_pages: int = 1_000, *, is_held: bool = False, is_quick: bool = True) -> None:
        self.left = pages
        self.wants: list[tuple[int, int, int]] = []
        self.pages = self.bytes = 0
        self._slice = slice_pages
        self._is_held = is_held
        self._is_quick = is_quick
        self.meter = QuotaMeter(self, monotonic)

    def request_slice(self, number: int, pages: int, size_bytes: int) -> None:
        self.wants.append((number, pages, size_bytes))
        if self._is_quick:
            asyncio.get_running_loop().call_soon(self.answer)

    def answer(self) -> None:
        number, pages, size = self.wants[-1]
        got = min(pages, self.left, self._slice)
        self.left -= got
        self.pages += got
        self.bytes += size
        refused = [QuotaRefusal(PAGES, "p", NONE_LEFT, 5_000, self._is_held)] if pages and not got else []
        self.meter.apply_slice(number, self.pages, self.bytes, refused)


@virtual
async def test_the_first_page_waits_for_a_slice_and_the_next_ones_do_not() -> None:
    day = Day(1_000, is_quick=False)
    first = asyncio.create_task(day.meter.page())
    await asyncio.sleep(1)
    assert not first.done()
    assert day.wants == [(1, FIRST.pages, FIRST.bytes)]
    day.answer()
    await first
    for _ in range(FIRST.pages - 1):
        await day.meter.page()
    assert day.meter.used == (FIRST.pages, 0)


@virtual
async def test_more_is_asked_for_ahead_and_once() -> None:
    day = Day(1_000, is_quick=False)
    asking = asyncio.create_task(day.meter.page())
    await asyncio.sleep(0)
    day.answer()
    await asking
    while len(day.wants) == 1:
        await day.meter.page()
    left = FIRST.pages - day.meter.used[0]
    assert 0 < left <= FIRST.pages // 2
    await day.meter.page()
    assert [number for number, *_ in day.wants] == [1, 2]
    assert day.wants[1][2] == 0, "of bytes there are enough"


@virtual
async def test_a_fast_crawl_asks_for_as_much_as_it_uses_in_some_seconds() -> None:
    day = Day(1_000_000)
    for _ in range(2_000):
        await day.meter.page()
        await asyncio.sleep(0.01)
    asked = [pages for _, pages, _ in day.wants]
    assert 300 < max(asked) < 1_000
    assert len(asked) < 20


@virtual
async def test_many_who_wait_share_what_comes() -> None:
    day = Day(100, slice_pages=3)
    await asyncio.gather(*(day.meter.page() for _ in range(50)))
    assert day.meter.used[0] == 50
    assert day.left + day.pages == 100


@virtual
async def test_a_waiter_that_goes_away_takes_nobody_with_it() -> None:
    day = Day(10, is_quick=False)
    one, other = (asyncio.create_task(day.meter.page()) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.sleep(0)
    day.answer()
    await other
    assert day.meter.used[0] == 1


@virtual
async def test_when_nothing_is_left_it_is_over_and_says_for_how_long() -> None:
    day = Day(10)
    for _ in range(10):
        await day.meter.page()
    with pytest.raises(OverQuota, match="0 of 10 left") as over:
        await day.meter.page()
    assert (over.value.again_s, over.value.project, day.meter.used) == (5.0, "p", (10, 0))
    asked = len(day.wants)
    day.meter.read(5)
    assert len(day.wants) == asked, "it is not asked for ahead any more"


@virtual
async def test_what_others_hold_is_waited_for_a_little() -> None:
    day = Day(0, is_held=True)
    asking = asyncio.create_task(day.meter.page())
    await asyncio.sleep(RETRY_S * 1.5)
    day.left = 1
    await asking
    began = monotonic()
    with pytest.raises(OverQuota):
        await day.meter.page()
    assert monotonic() - began == pytest.approx(MAX_RETRIES * RETRY_S)


@virtual
async def test_answers_that_come_late_or_twice_change_nothing() -> None:
    day = Day(1_000, is_quick=False)
    asking = asyncio.create_task(day.meter.page())
    await asyncio.sleep(0)
    day.meter.apply_slice(0, 0, 0, [QuotaRefusal(PAGES, "p", NONE_LEFT)])
    await asyncio.sleep(0)
    assert not asking.done(), "an answer to an older want refuses nothing"
    day.answer()
    await asking
    day.meter.apply_slice(1, FIRST.pages, 0, [])
    day.meter.apply_slice(1, 1, 1, [])
    for _ in range(FIRST.pages - 1):
        await day.meter.page()
    assert day.meter.used[0] == FIRST.pages


@virtual
async def test_a_request_that_was_not_sent_is_not_counted() -> None:
    day = Day(1)
    await day.meter.page()
    day.meter.unsent()
    await day.meter.page()
    assert day.meter.used == (1, 0)


@virtual
async def test_bytes_are_read_no_further_than_granted() -> None:
    day = Day(10)
    assert await day.meter.room(100) == 100
    day.meter.read(FIRST.bytes - 10)
    assert len(day.wants) == 2
    day.meter.apply_slice(2, 20, FIRST.bytes, [QuotaRefusal(BYTES, "p", "none")])
    assert await day.meter.room(100) == 10
