"""Hosts that stop answering, in virtual time: who is to blame, how they are asked, and when they are given up."""

from __future__ import annotations

import asyncio

import aiohttp
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.execution.crawl.engine.host_outages import PAUSE_MOST_S, PAUSE_S, HostOutages
from crawlfleet.execution.crawl.engine.plan import make_crawl_plan
from crawlfleet.execution.crawl.fetch.connection_failures import failure_from_exception
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.page_failures import PageFailed
from testkit.virtual_loop import run, running_loop

PAGE, OTHER = "http://shop.test/page", "http://shop.test/other"
HOST = "shop.test"
REFUSED = PageFailed("network", f"{PAGE}: no connection", kind="connect")
PATIENCE_S = 60.0


class Asked:
    """A host that is away from an instant to another; asking takes its time."""

    def __init__(self, *away: tuple[float, float], takes_s: float = 0.0) -> None:
        self._away = away
        self._takes_s = takes_s
        self._open = 0
        self.at: list[float] = []
        self.urls: list[str] = []
        self.lines: list[str] = []
        self.wakes = 0
        self.outages = HostOutages(
            self.ask, lambda line, _level: self.lines.append(line), lambda: running_loop().time()
        )
        self.outages.add_crawl(self._wake)

    def is_up(self) -> bool:
        now = running_loop().time()
        return not any(begin <= now < end for begin, end in self._away)

    async def ask(self, url: str) -> bool:
        self.at.append(running_loop().time())
        self.urls.append(url)
        self._open += 1
        assert self._open == 1, "one request at a time"
        await asyncio.sleep(self._takes_s)
        self._open -= 1
        return self.is_up()

    async def excuses(self, patience_s: float = PATIENCE_S) -> bool:
        return await self.outages.excuses_failure(PAGE, REFUSED, patience_s)

    def _wake(self) -> None:
        self.wakes += 1


def test_where_the_witness_answers_the_page_is_to_blame() -> None:
    async def main() -> None:
        asked = Asked(takes_s=0.1)
        asked.outages.note_answer(OTHER)
        assert not await asked.excuses()
        assert (asked.urls, running_loop().time()) == ([OTHER], 0.1)
        assert not asked.lines and not asked.outages.describe_outages() and not asked.outages.away

    run(main())


def test_a_host_that_is_away_is_asked_with_growing_pauses_until_it_answers() -> None:
    async def main() -> None:
        asked = Asked((0, 20))
        asked.outages.note_answer(OTHER)
        assert await asked.excuses()
        assert asked.at == [0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5]
        assert asked.wakes == 1 and not asked.outages.away and not asked.outages.is_lost(HOST)
        assert "answers again after 23.5 s" in asked.lines[-1]

    run(main())


def test_one_that_stays_away_is_lost_when_patience_ends() -> None:
    async def main() -> None:
        asked = Asked((0, 600))
        asked.outages.note_answer(OTHER)
        assert await asked.excuses()
        assert running_loop().time() == PATIENCE_S
        assert asked.outages.is_lost(HOST) and not asked.outages.is_lost("other.test")
        failure = asked.outages.make_lost_failure(OTHER)
        assert (failure.error, failure.kind) == ("network", "connect")
        assert str(failure) == f"{OTHER}: shop.test did not answer for 60 s"
        assert asked.outages.describe_outages() == ["shop.test did not answer for 60 s: 1 pages failed by that"]

    run(main())


def test_a_host_heard_by_others_is_asked_for_its_robots() -> None:
    async def main() -> None:
        asked = Asked()
        assert not asked.outages.has_answered(PAGE)
        assert not await asked.excuses()
        assert asked.urls == ["http://shop.test/robots.txt"]

    run(main())


def test_others_wait_for_the_first_answer_only() -> None:
    async def main() -> None:
        asked = Asked((0, 20), takes_s=0.1)
        asked.outages.note_answer(OTHER)
        first = asyncio.create_task(asked.excuses())
        await asyncio.sleep(0)
        assert HOST not in asked.outages.away
        assert await asked.excuses()
        # It is away from now on, and whoever fails later need not wait at all.
        assert running_loop().time() == 0.1 and asked.outages.away == {HOST}
        assert await asked.excuses()
        assert running_loop().time() == 0.1 and not first.done()
        assert await first

    run(main())


def test_others_are_to_blame_as_well_where_the_witness_answers() -> None:
    async def main() -> None:
        asked = Asked(takes_s=0.1)
        asked.outages.note_answer(OTHER)
        assert await asyncio.gather(*(asked.excuses() for _ in range(5))) == [False] * 5
        assert len(asked.at) == 1

    run(main())


def test_time_adds_up_while_no_page_is_read_in_between() -> None:
    async def main() -> None:
        asked = Asked((0, 40), (100, 140), (200, 600))
        asked.outages.note_answer(OTHER)
        await asked.excuses()
        away_s = running_loop().time()
        await asyncio.sleep(100 - away_s)
        await asked.excuses()
        assert asked.outages.is_lost(HOST)
        assert running_loop().time() == pytest.approx(100 + PATIENCE_S - away_s)

    run(main())


def test_a_page_that_is_read_gives_all_the_time_again() -> None:
    async def main() -> None:
        asked = Asked((0, 40), (100, 140))
        asked.outages.note_answer(OTHER)
        await asked.excuses()
        asked.outages.note_answer(PAGE)
        await asyncio.sleep(100 - running_loop().time())
        assert await asked.excuses()
        assert not asked.outages.is_lost(HOST)

    run(main())


def test_a_wait_that_is_cut_short_holds_nobody_up_and_is_told() -> None:
    async def main() -> None:
        asked = Asked((0, 600))
        asked.outages.note_answer(OTHER)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asked.excuses()
        assert not asked.outages.away and asked.wakes == 1
        assert asked.outages.describe_outages() == ["shop.test had not answered for 10 s when the crawl ended"]

    run(main())


def seconds(least: float, most: float) -> st.SearchStrategy[float]:
    """Times in parts of 1/1024 s, which add up exactly."""
    return st.integers(round(least * 1024), round(most * 1024)).map(lambda parts: parts / 1024)


@given(away_s=seconds(0, 200), patience_s=seconds(0.1, 100), takes_s=seconds(0, 10), fails_at=seconds(0, 50))
@settings(max_examples=30)
def test_nobody_is_lost_who_came_back_in_time(
    away_s: float, patience_s: float, takes_s: float, fails_at: float
) -> None:
    async def main() -> None:
        asked = Asked((0, away_s), takes_s=takes_s)
        asked.outages.note_answer(OTHER)
        await asyncio.sleep(fails_at)
        is_excused = await asked.excuses(patience_s)
        now = running_loop().time()
        assert asked.outages.is_lost(HOST) == (not asked.is_up())
        assert is_excused == (fails_at + takes_s < away_s)
        # It is noticed within a pause, and given up within the time of one request.
        if asked.outages.is_lost(HOST):
            assert patience_s <= now - fails_at <= patience_s + 2 * takes_s + 0.001
        else:
            assert now <= max(away_s, fails_at) + PAUSE_MOST_S + 2 * takes_s + PAUSE_S

    run(main())


def test_a_connection_that_takes_too_long_is_none() -> None:
    failure = failure_from_exception(PAGE, aiohttp.ConnectionTimeoutError(), 30.0)
    assert (failure.error, failure.kind, failure.failed_url) == ("timeout", "connect", PAGE)
    late = failure_from_exception(PAGE, TimeoutError(), 30.0)
    assert (late.error, late.kind) == ("timeout", "timeout")


def test_the_parameter_is_checked() -> None:
    schema = jsonschema_rs.validator_for(WebCrawl.schema)
    for wait_s in (0, 0.5, 3_600):
        assert schema.is_valid({"url": PAGE, "wait_for_host_s": wait_s})
    for wait in (-1, 3_601, "60", None):
        assert not schema.is_valid({"url": PAGE, "wait_for_host_s": wait})
    assert make_crawl_plan({"url": PAGE}).wait_for_host_s == 60
    assert make_crawl_plan({"url": PAGE, "wait_for_host_s": 0}).wait_for_host_s == 0
