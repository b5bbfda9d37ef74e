"""A scrape is written once for all who come together, and again when it is old."""

import asyncio
from collections.abc import Iterable

import pytest
from prometheus_client.metrics_core import Metric

from crawlfleet.api.views.metric_families import MetricSpec
from crawlfleet.api.views.metrics_scrape import CACHED_S, MakeMetrics, Scrape
from crawlfleet.errors import StoreUnavailable

READS = MetricSpec("reads", "gauge", "How often it was read.")


class Source:
    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.is_away = False
        self.scrape = Scrape(self.read, lambda: self.now)

    async def read(self) -> MakeMetrics:
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("away")
        self.reads += 1
        return self.make

    def make(self) -> Iterable[Metric]:
        yield READS.single(self.reads)


async def test_scrapes_share_a_reading_and_a_text() -> None:
    source = Source()
    texts = await asyncio.gather(*(source.scrape.render("*/*") for _ in range(10)))
    assert {text.text for text in texts} == {
        b"# HELP crawlfleet_reads How often it was read.\n# TYPE crawlfleet_reads gauge\ncrawlfleet_reads 1\n"
    }
    source.now = CACHED_S - 0.1
    assert b"reads 1\n" in (await source.scrape.render("")).text
    source.now = CACHED_S
    assert b"reads 2\n" in (await source.scrape.render("")).text


async def test_the_format_is_the_one_that_is_accepted() -> None:
    source = Source()
    text = await source.scrape.render("application/openmetrics-text;version=1.0.0,text/plain;q=0.1")
    assert text.content_type.startswith("application/openmetrics-text")
    assert text.text.endswith(b"# EOF\n")


async def test_what_cannot_be_read_is_not_cached() -> None:
    source = Source()
    source.is_away = True
    with pytest.raises(StoreUnavailable):
        await source.scrape.render("")
    source.is_away = False
    assert b"reads 1\n" in (await source.scrape.render("")).text
