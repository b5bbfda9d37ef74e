"""Scrapy, with a spider as lean as it can be, and with its own link extractor.

python -m bench.peers.scrapy_crawl URL ITEMS lean|own

Both run without robots.txt, cookies, retries, throttling and logs, 32 requests at a time. The lean one finds links by
one XPath and remembers them itself; the other is a CrawlSpider, as its documentation shows it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from bench.peers.measured import Measured

AT_ONCE = 32
SETTINGS = {
    "ROBOTSTXT_OBEY": False,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "REDIRECT_ENABLED": False,
    "AUTOTHROTTLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS": AT_ONCE,
    "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_ENABLED": False,
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
}


def item_of(response: Response) -> dict[str, Any]:
    item = {name: response.css(f".{name}::text").get() for name in ("title", "price", "sku")}
    return {"url": response.url, **item}


class Lean(Spider):
    name = "lean"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.start_urls = [url]
        self._met = {urlsplit(url).path}

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        yield item_of(response)
        for href in response.xpath("//a/@href").getall():
            if href not in self._met:
                self._met.add(href)
                yield Request(response.urljoin(href), dont_filter=True)


class Own(CrawlSpider):
    name = "own"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def __init__(self, url: str) -> None:
        super().__init__()
        self.start_urls = [url]
        self.allowed_domains = [str(urlsplit(url).hostname)]

    async def start(self) -> AsyncIterator[Any]:
        # By default the first request is not remembered, and its page would be fetched once more.
        yield Request(self.start_urls[0])

    def parse_start_url(self, response: Response, **_: Any) -> Any:
        return self.parse_page(response)

    def parse_page(self, response: Response) -> Any:
        return item_of(response)


def main(start: str, file: str, spider: str) -> None:
    feeds = {Path(file).resolve().as_uri(): {"format": "jsonlines", "overwrite": True}}
    process = CrawlerProcess({**SETTINGS, "FEEDS": feeds})
    with Measured():
        process.crawl(Lean if spider == "lean" else Own, url=start)
        process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
