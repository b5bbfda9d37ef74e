"""The bare loop: the client and the parser that the engine is made of, a set of links, and nothing else.

python -m bench.peers.bare_crawl URL ITEMS [fetch]

No robots, no budget, no limits, no address check, no retries, no progress. With `fetch` it only fetches /p/0 to
/p/4999 and looks at nothing: the client alone.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from pathlib import Path
from typing import TextIO

import ada_url
import aiohttp
import msgspec
import uvloop
from selectolax.lexbor import LexborHTMLParser

from bench.peers.measured import Measured

AT_ONCE = 32
FETCHED = 5_000


async def crawl(start: str, items: TextIO) -> None:
    queue: asyncio.Queue[str] = asyncio.Queue()
    queue.put_nowait(start)
    met: set[str] = set()
    seen = {start}

    def read(url: str, body: bytes) -> None:
        tree = LexborHTMLParser(body)
        item = {"url": url}
        for name in ("title", "price", "sku"):
            node = tree.css_first(f".{name}")
            item[name] = node.text() if node is not None else ""
        items.write(msgspec.json.encode(item).decode() + "\n")
        for link in tree.css("a[href]"):
            href = link.attributes["href"]
            # Most links of a site are on every page of it: a raw one that was met before needs no parsing.
            if href is None or href in met:
                continue
            met.add(href)
            target = ada_url.join_url(url, href)
            if target not in seen:
                seen.add(target)
                queue.put_nowait(target)

    async def work(session: aiohttp.ClientSession) -> None:
        while True:
            url = await queue.get()
            async with session.get(url) as response:
                read(str(response.url), await response.read())
            queue.task_done()

    async with _session() as session, asyncio.TaskGroup() as group:
        workers = [group.create_task(work(session)) for _ in range(AT_ONCE)]
        await queue.join()
        for worker in workers:
            worker.cancel()


async def fetch(site: str) -> None:
    urls = deque(f"{site}/p/{number}" for number in range(FETCHED))

    async def work(session: aiohttp.ClientSession) -> None:
        while urls:
            async with session.get(urls.popleft()) as response:
                await response.read()

    async with _session() as session, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work(session))


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


def main(start: str, file: str, what: str = "crawl") -> None:
    with Path(file).open("w") as items, Measured():
        uvloop.run(crawl(start, items) if what == "crawl" else fetch(start.removesuffix("/p/0")))


if __name__ == "__main__":
    main(*sys.argv[1:])
