"""Pages made to hurt: each is read in bounded time and memory, or given up, and no process ends over it."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from crawlfleet.execution.crawl.parse.extract.dom import TEXT_CHARS
from crawlfleet.execution.crawl.parse.extract.extraction_plan import compile_plan
from crawlfleet.execution.crawl.parse.page_parser import NeedsParserProcess, PageFacts, ParseRequest, parse_page
from crawlfleet.execution.crawl.parse.parser_process import ParserProcess
from crawlfleet.execution.page_failures import PageFailed
from tests.unit.execution.crawl.parse.extract.extract_kit import URL

CSS: dict[str, Any] = {
    "selectors": {"product": "div", "title": "b"},
    "extract": {
        "things": {
            "container": "div",
            "fields": {
                "name": {"selector": "b", "regex": "(x+)+y"},
                "all": {"selector": "b", "all": True},
                "html": {"selector": "b", "type": "html"},
                "price": {"selector": "b", "type": "price"},
                "day": {"selector": "b", "type": "date"},
                "inner": {"container": "div", "fields": {"b": "b"}},
            },
        },
        "json": {"json": "a", "fields": {"b": "b"}},
    },
    "page": ["metadata", "structured", "links"],
}
XPATH = CSS | {"extract": CSS["extract"] | {"more": {"container": "//div", "fields": {"b": ".//b"}}}}
PAGES = {
    "deep": "<div>" * 5_000 + "<b>x</b>",
    "deep formatting": "<b>" * 5_000,
    "deep things": "<div itemscope itemprop=a>" * 5_000 + "<b itemprop=b>x",
    "no tags": "x" * 10_000_000,
    "digits": "<div><b>" + "1,2.3 " * 1_000_000,
    "nulls": "<div>\0<b>a\0b</b>\0</div>" * 5_000,
    "many": "<div><b>x</b></div>" * 5_000,
    "one long value": "<div><b>" + "x" * 5_000_000,
    "links": "<a href=x rel='nofollow next'>" * 30_000,
    "unclosed": "<div><b" + " a" * 3_000,
    "script": "<script type='application/ld+json'>" + "[" * 500_000,
    "half characters": "<div><b>\ud800</b></div>",
}


@pytest.mark.parametrize("asked", [CSS, XPATH], ids=["css", "xpath"])
@pytest.mark.parametrize("name", PAGES)
def test_a_hostile_page_is_read_in_bounded_time(name: str, asked: dict[str, Any]) -> None:
    source = compile_plan(asked).source
    began = time.process_time()
    facts = parse_page(ParseRequest(PAGES[name], URL, source, None, True, is_isolated=True))
    took_s = time.process_time() - began
    assert took_s < 20
    # As it leaves the process: what is nested too deeply could not be written.
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(facts), type=PageFacts) == facts
    for record in facts.data["things"][:100]:
        assert len(str(record["name"])) <= TEXT_CHARS


async def test_a_process_apart_gives_up_a_page_and_another_reads_the_next() -> None:
    apart = ParserProcess(3)
    source = compile_plan(CSS | {"page": ["markdown", "text"]}).source
    try:
        # The parser looks through all open elements at every tag: time grows with the square of the depth.
        with pytest.raises(PageFailed, match="could not be read within 3 s"):
            await apart.parse_page(ParseRequest("<div>" * 100_000, URL, source, None, True))
        facts = await apart.parse_page(ParseRequest("<div><b>xy</b></div>", URL, source, None, True))
        assert facts.data["things"][0]["name"] == "x"
        assert facts.page["text"] == "xy"
    finally:
        await apart.close()


def test_selectors_that_descend_are_not_matched_here_on_a_deep_page() -> None:
    source = compile_plan({"extract": {"things": {"container": "div p", "fields": {"b": "div b"}}}}).source
    with pytest.raises(NeedsParserProcess):
        parse_page(ParseRequest("<div>" * 5_000, URL, source, None, True))
