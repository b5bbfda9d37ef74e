"""The bare loop: the client and the parser that the engine is made of, a set of links, and nothing else.

python -m bench.peers.bare_crawl URL ITEMS [fetch | own]

No robots, no budget, no limits, no address check, no retries, no progress. With `fetch` it only fetches /p/0 to
/p/4999 and looks at nothing: the client alone. With `own` it asks as the engine does, over the client's connections
without its session.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TextIO

import ada_url
import aiohttp
import msgspec
import uvloop
from selectolax.lexbor import LexborHTMLParser

from bench.peers.measured import Measured
from crawlfleet.execution.crawl.fetch.connections import Connector
from crawlfleet.execution.crawl.fetch.http_client import HttpClient, PreparedOrigin, RequestOptions
from crawlfleet.execution.crawl.frontier.urls import origin_prefix

AT_ONCE = 32
FETCHED = 5_000


Fetch = Callable[[str], Awaitable[bytes]]
Opened = AbstractAsyncContextManager[Fetch]


@asynccontextmanager
async def by_session() -> AsyncIterator[Fetch]:
    async with _session() as session:

        async def fetch(url: str) -> bytes:
            async with session.get(url) as response:
                return await response.read()

        yield fetch


@asynccontextmanager
async def by_own_client() -> AsyncIterator[Fetch]:
    client = HttpClient(Connector(limit=0), connect_s=10, total_s=30)
    ways: dict[str, PreparedOrigin] = {}

    async def look() -> None:
        pass

    async def fetch(url: str) -> bytes:
        start = origin_prefix(url)
        if start not in ways:
            ways[start] = client.prepare_origin(start, RequestOptions({}))
        answer = await client.get(ways[start], url, {}, look)
        parts = []
        while chunk := await answer.read_part():
            parts.append(chunk)
        answer.release()
        return b"".join(parts)

    yield fetch
    await client.close()


async def crawl(start: str, items: TextIO, opened: Opened) -> None:
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

    async def work(fetch: Fetch) -> None:
        while True:
            url = await queue.get()
            read(url, await fetch(url))
            queue.task_done()

    async with opened as fetch, asyncio.TaskGroup() as group:
        workers = [group.create_task(work(fetch)) for _ in range(AT_ONCE)]
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
        if what == "fetch":
            uvloop.run(fetch(start.removesuffix("/p/0")))
        else:
            uvloop.run(crawl(start, items, by_own_client() if what == "own" else by_session()))


if __name__ == "__main__":
    main(*sys.argv[1:])
