"""The last look before a request leaves, and what a fetcher decides once per origin."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yarl
from aiohttp import web

from crawlfleet.execution.budget.host_gate import NoGrant, OpenGate
from crawlfleet.execution.page_failures import PageFailed
from tests.unit.execution.crawl.crawl_kit import fetcher, site

PARSES = """
import resource
from crawlfleet.execution.executors.outside import linux_processes
from selectolax.lexbor import LexborHTMLParser
linux_processes.keep_freed_memory()
html = "<ul>" + "<li><a href='/p'>a page</a></li>" * 900
LexborHTMLParser(html)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    LexborHTMLParser(html)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 100)
"""


class Refusing(OpenGate):
    """Takes its grant back from some departures."""

    def __init__(self, refused: set[int]) -> None:
        self.refused = refused
        self.departures = 0
        self.begun = self.ended = 0

    async def begin_request(self, host: str) -> None:
        self.begun += 1

    def end_request(self, host: str) -> None:
        self.ended += 1

    async def await_departure(self, host: str, *, is_repeat: bool = False) -> None:
        self.departures += 1
        if self.departures in self.refused:
            raise NoGrant(host)


async def test_a_request_that_lost_its_grant_is_not_sent_and_its_connection_is_kept() -> None:
    connections = set()

    async def answer(request: web.Request) -> web.Response:
        connections.add(request.transport)
        return web.Response(text="<p>a page", content_type="text/html")

    gate = Refusing({1, 3})
    async with site({"/": answer, "/2": answer}) as served, fetcher(gate=gate) as fetching:
        await fetching.fetch(f"{served.url}/")
        await fetching.fetch(f"{served.url}/2")
    assert served.hits == ["/", "/2"]
    assert len(connections) == 1
    assert gate.departures == gate.begun == gate.ended == 4


async def test_an_address_is_refused_every_time() -> None:
    async with site({"/": "a page"}) as served, fetcher(allow=frozenset()) as fetching:
        for path in ("/", "/2", "/"):
            with pytest.raises(PageFailed, match="loopback") as told:
                await fetching.fetch(f"{served.url}{path}")
            assert told.value.error == "policy"
    assert served.hits == []


async def test_an_origin_that_is_read_in_two_ways_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site({"/": "a page"}) as served, fetcher() as fetching:
        other = yarl.URL("http://other.test/")
        monkeypatch.setattr("crawlfleet.execution.crawl.fetch.fetcher.yarl.URL", lambda _text, **_: other)
        with pytest.raises(PageFailed, match="two ways"):
            await fetching.fetch(f"{served.url}/")
    assert served.hits == []


def test_pages_are_parsed_into_memory_that_is_kept() -> None:
    said = subprocess.run([sys.executable, "-c", PARSES], capture_output=True, text=True, check=True).stdout
    assert float(said) < 5, "page faults for each page"
