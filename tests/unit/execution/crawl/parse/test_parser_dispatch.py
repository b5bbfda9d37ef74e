"""Where pages are read, and that none of them holds up anything else."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from crawlfleet.execution.crawl.fetch.responses import Fetched
from crawlfleet.execution.crawl.parse import parser_dispatch as reader_module
from crawlfleet.execution.crawl.parse import parser_process
from crawlfleet.execution.crawl.parse.extract.extraction_plan import compile_plan
from crawlfleet.execution.crawl.parse.extract.page_links import PageLinks
from crawlfleet.execution.crawl.parse.memory_limit import EXTRA_BYTES
from crawlfleet.execution.crawl.parse.page_parser import PageFacts, ParseRequest
from crawlfleet.execution.crawl.parse.parser_dispatch import LOOP_BYTES, THREAD_BYTES, PageParser
from crawlfleet.execution.crawl.parse.parser_process import ParserProcess
from crawlfleet.execution.page_failures import PageFailed
from testkit.patience import PATIENCE_S, promised

CARD = '<div class="product"><h2 class="title">A</h2><a href="/1">x</a></div>'
SELECTORS = {"product": "div.product", "title": "h2.title"}


def page(html: str) -> Fetched:
    return Fetched("http://shop.test/", 200, "text/html", "utf-8", html.encode())


async def read(html: str, selectors: dict[str, str], limit_s: int = 10) -> PageFacts:
    reader = PageParser(compile_plan({"selectors": selectors}), ParserProcess(limit_s))
    try:
        return await reader.parse_page(page(html), container=None, follow=True)
    finally:
        await reader.close()


async def longest_gap(work: asyncio.Task[PageFacts]) -> float:
    """How long the loop was held, while `work` ran."""
    gap, last = 0.0, time.monotonic()
    while not work.done():
        await asyncio.sleep(0.001)
        now = time.monotonic()
        gap, last = max(gap, now - last), now
    return gap


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if parser_process.__name__ in " ".join(child.cmdline())]


@pytest.mark.parametrize("size", [0, LOOP_BYTES, THREAD_BYTES])
async def test_a_page_reads_the_same_wherever_it_is_read(size: int) -> None:
    got = await read(CARD + "<p>" + "x" * size, SELECTORS)
    assert (got.links, got.base, got.container) == (PageLinks(["/1"]), "http://shop.test/", "product")
    assert got.records == [{"title": "A", "url": "/1"}]
    assert got.counts == {"product": [1, 1, 1, 0, 0, 0], "title": [1, 1, 1, 0, 0, 0]}
    assert children() == []


async def test_links_of_pictures_are_no_links_and_no_trouble() -> None:
    html = '<svg><a xlink:href="/picture"><use xlink:href="#x"/></a></svg><math><a xlink:href="/m"></a></math>' + CARD
    assert (await read(html, SELECTORS)).links.hrefs == ["/1"]


class Elsewhere(ParserProcess):
    """Reads nothing, and knows how often it was asked to."""

    asked = 0

    async def parse_page(self, job: ParseRequest) -> PageFacts:
        self.asked += 1
        return PageFacts(title="elsewhere")


def reopened(tags: int, paragraphs: int) -> str:
    """Tags that are open, and opened again in each paragraph: a tree of as many elements as their product."""
    return "<p>" + "".join(f"<b a{number}>" for number in range(tags)) + "<p>x" * paragraphs


async def test_a_page_that_becomes_a_giant_is_not_read_here() -> None:
    elsewhere = Elsewhere()
    reader = PageParser(compile_plan({}), elsewhere)
    forget_peak()
    # It is read twice, on the loop and in a thread, and what the first reading freed need not serve the second.
    allowed_mb = peak_mb() + 2 * (EXTRA_BYTES >> 20) + 50
    html = reopened(2_000, 3_000)
    assert len(html) < LOOP_BYTES / 2
    for size in (0, LOOP_BYTES):
        facts = await reader.parse_page(page(html + "<!--" + "x" * size), container=None, follow=True)
        assert facts.title == "elsewhere"
    assert elsewhere.asked == 2
    assert peak_mb() < allowed_mb
    # Nothing of the limit is left.
    assert len(bytearray(600 << 20)) == 600 << 20
    assert (await reader.parse_page(page("<title>small</title>"), container=None, follow=True)).title == "small"
    await reader.close()


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


async def test_after_a_small_page_that_took_long_the_loop_is_not_held_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_module, "SLOW_S", 0.02)
    reader = PageParser(compile_plan({}))
    slow = page(reopened(7_000, 0))
    assert len(slow.body) < LOOP_BYTES
    for is_held in (True, False):
        began = time.monotonic()
        work = asyncio.create_task(reader.parse_page(slow, container=None, follow=True))
        gap = await longest_gap(work)
        assert (gap > (time.monotonic() - began) / 2) is is_held
    await reader.close()


async def test_a_mistake_of_ours_is_the_failure_of_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbles(_job: ParseRequest) -> PageFacts:
        raise KeyError("href")

    monkeypatch.setattr(reader_module, "parse_page", stumbles)
    with pytest.raises(PageFailed, match=r"shop\.test/: cannot be read \(KeyError") as told:
        await read(CARD, SELECTORS)
    assert (told.value.error, told.value.permanent) == ("internal", True)


async def test_a_large_page_does_not_hold_the_loop() -> None:
    html = CARD * (5_000_000 // len(CARD))
    work = asyncio.create_task(read(html, SELECTORS, limit_s=int(PATIENCE_S)))
    gap = await longest_gap(work)
    assert len(work.result().records) == html.count("<h2")
    assert gap < promised(0.5)


@pytest.mark.parametrize(
    ("html", "selector"),
    [
        ("<div>" * 20_000, "p div div div div"),
        ("<div>" * 12_000, "p div"),
        (CARD * 3_000, "//div[count(//h2[count(//a) > 1]) > 1]"),
    ],
    ids=["css on a deep page", "plain css on a deep page", "xpath"],
)
async def test_a_costly_selector_is_stopped(html: str, selector: str) -> None:
    began = time.monotonic()
    work = asyncio.create_task(read(html, {"it": selector}, limit_s=1))
    gap = await longest_gap(work)
    # The middle one may well be done in time: what counts is that it holds up nobody.
    with suppress(PageFailed):
        work.result()
        assert selector == "p div"
    assert time.monotonic() - began < promised(10)
    assert gap < 3.0, "longer, and the process is taken for dead"
    assert children() == []


async def test_after_a_page_that_was_stopped_the_next_is_read() -> None:
    reader = PageParser(compile_plan({"selectors": {"it": "//h2[count(//h2[count(//a) > 1]) > 1]"}}), ParserProcess(1))
    try:
        with pytest.raises(PageFailed) as told:
            await reader.parse_page(page(CARD * 3_000), container=None, follow=False)
        assert (told.value.error, told.value.permanent) == ("parse", True)
        assert (await reader.parse_page(page(CARD * 2), container=None, follow=False)).lists == {"it": ["A", "A"]}
    finally:
        await reader.close()
    assert children() == []


async def test_cancelled_half_way_it_leaves_no_process_and_mixes_no_answers() -> None:
    apart = ParserProcess()
    reader = PageParser(compile_plan({"selectors": {"it": "//h2[count(//h2[count(//a) > 1]) > 1]"}}), apart)
    work = asyncio.create_task(reader.parse_page(page(CARD * 3_000), container=None, follow=False))
    async with asyncio.timeout(PATIENCE_S):
        while not children():  # noqa: ASYNC110 - a process has no event to wait for
            await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert children() == []
    assert (await reader.parse_page(page(CARD * 3), container=None, follow=False)).lists == {"it": ["A", "A", "A"]}
    await reader.close()
