"""Crawlee with its ParselCrawler, as its documentation shows it: 32 at a time, everything in memory.

python -m bench.peers.crawlee_crawl URL ITEMS
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import TextIO

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient

from bench.peers.measured import Measured

AT_ONCE = 32


async def crawl(start: str, items: TextIO) -> None:
    crawler = ParselCrawler(
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(AT_ONCE, AT_ONCE, desired_concurrency=AT_ONCE),
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        item = {name: context.selector.css(f".{name}::text").get() for name in ("title", "price", "sku")}
        items.write(json.dumps({"url": context.request.url, **item}) + "\n")
        await context.enqueue_links()

    await crawler.run([start])


def main(start: str, file: str) -> None:
    logging.disable(logging.CRITICAL)
    with Path(file).open("w") as items, Measured():
        asyncio.run(crawl(start, items))


if __name__ == "__main__":
    main(*sys.argv[1:])
