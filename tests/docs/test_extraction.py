"""The examples of the page about extraction, against the page they are about."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.executors.registry import builtin_checks
from tests.docs.test_pages import blocks
from tests.paths import ROOT
from tests.unit.execution.crawl.crawl_kit import crawl, site

PAGE = ROOT / "docs" / "extraction.md"
(HTML,) = blocks(PAGE, "html")
REFUSAL, *EXAMPLES, FIELDS = (json.loads(block) for block in blocks(PAGE, "json"))


async def result_of(parameters: dict[str, Any]) -> tuple[dict[str, Any], str]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=HTML, content_type="text/html")

    async with site({"/": answer}) as served:
        return await crawl({"url": f"{served.url}/", **parameters}), served.url


@pytest.mark.parametrize("at", range(0, len(EXAMPLES), 2))
def test_an_example_gives_what_stands_below_it(at: int) -> None:
    asked, expected = EXAMPLES[at : at + 2]
    types = TaskTypes({"web_crawl": WebCrawl.schema}, builtin_checks())
    assert types.find_refusal("web_crawl", json.dumps({"url": "http://shop.test/", **asked}).encode()) is None
    result, url = asyncio.run(result_of(asked))
    assert json.loads(json.dumps(result["data"]).replace(url, "http://shop.test")) == expected


def test_the_counts_are_those_shown() -> None:
    result, _ = asyncio.run(result_of(EXAMPLES[2]))
    assert FIELDS.items() <= result["metrics"]["fields"].items()


def test_the_refusal_is_that_shown() -> None:
    asked = {"extract": {"products": {"fields": {"price": {"selector": "span["}}}}, "url": "http://shop.test/"}
    types = TaskTypes({"web_crawl": WebCrawl.schema}, builtin_checks())
    refused = types.find_refusal("web_crawl", json.dumps(asked).encode())
    assert refused is not None
    assert {"code": str(refused.code), "field": refused.field, "detail": refused.detail} == REFUSAL
