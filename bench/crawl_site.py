"""The site of the crawl benchmark: pages of about 30 KB with 66 links each, the same in every run.

python -m bench.crawl_site PAGES    prints its address

A static server on uvloop: a page is made once and kept, and is sent in one write. It counts what it was asked, so that
the benchmark knows whether a crawler fetched every page once, and from when to when.

    /p/N        a page; /p/0 is the front page, from which all others are reached within a few links
    /-/begin    forgets what was asked
    /-/asked    what was asked since then
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import lru_cache
from typing import cast

import msgspec
import uvloop

NAV, RELATED, CHILDREN = 26, 40, 8
LINKS = NAV + RELATED
ROBOTS = b"User-agent: *\nDisallow: /private/\nDisallow: /*?session=\nAllow: /\n"
_KEPT = 5_000
_FILLERS = 16


class Asked(msgspec.Struct):
    """What a crawler asked for, and when, by a clock that all processes share."""

    requests: int = 0
    pages: int = 0
    most_often: int = 0
    first_at: float = 0.0
    last_at: float = 0.0


def product(number: int) -> dict[str, str]:
    """What is to be found on a page."""
    return {"title": f"Product {number}", "price": f"${number % 900 + 1}.{number % 100:02}", "sku": f"SKU-{number:06}"}


def links_of(number: int, pages: int) -> list[int]:
    """The navigation that every page has, then its children in a tree of all pages, then others without any order."""
    children = [child for child in range(CHILDREN * number + 1, CHILDREN * number + CHILDREN + 1) if child < pages]
    others = [(number * 7_919 + 104_729 * (turn + 1)) % pages for turn in range(RELATED - len(children))]
    return [turn * 3 % pages for turn in range(NAV)] + children + others


@lru_cache(_FILLERS)
def _filler(number: int) -> str:
    words = f"A thing of use and beauty, made by hand in workshop {number} and sent by post. "
    facts = "".join(
        f'<li class="fact"><span class="name">Fact {n}</span> <span class="value">{n} cm</span></li>' for n in range(8)
    )
    section = f'<section><h2>About it</h2><p class="about">{words * 12}</p><ul class="facts">{facts}</ul></section>'
    return section * 16


def page(number: int, pages: int) -> bytes:
    it = product(number)
    links = [f'<li><a class="link" href="/p/{to}">Product number {to}</a></li>' for to in links_of(number, pages)]
    nav, related = "".join(links[:NAV]), "".join(links[NAV:])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{it["title"]}</title></head><body>'
        f'<nav><ul>{nav}</ul></nav><main class="product"><h1 class="title">{it["title"]}</h1>'
        f'<p><span class="price">{it["price"]}</span> <span class="sku">{it["sku"]}</span></p>'
        f"{_filler(number % _FILLERS)}</main><ul>{related}</ul></body></html>"
    ).encode()


class _Site(asyncio.Protocol):
    """One connection."""

    def __init__(self, pages: int, counts: list[int], asked: Asked) -> None:
        self._pages = pages
        self._counts = counts
        self._asked = asked
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._unread + data if self._unread else data
        *heads, self._unread = data.split(b"\r\n\r\n")
        for head in heads:
            self._transport.write(self._answer(head[4 : head.index(b" ", 4)]))
            self._asked.last_at = time.monotonic()

    def _answer(self, path: bytes) -> bytes:
        if path.startswith(b"/p/"):
            number = int(path[3:])
            asked = self._asked
            asked.requests += 1
            asked.first_at = asked.first_at or time.monotonic()
            self._counts[number] += 1
            return _page_answer(number, self._pages)
        if path == b"/robots.txt":
            return _answer(ROBOTS, b"text/plain")
        if path == b"/-/begin":
            self._counts[:] = [0] * self._pages
            self._asked.requests, self._asked.first_at = 0, 0.0
            return _answer(b"", b"text/plain")
        if path == b"/-/asked":
            self._asked.pages = sum(map(bool, self._counts))
            self._asked.most_often = max(self._counts)
            return _answer(msgspec.json.encode(self._asked), b"application/json")
        return _answer(b"", b"text/plain", b"404 Not Found")


def _answer(body: bytes, content_type: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %s\r\nServer: bench\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: keep-alive\r\n\r\n"
    return head % (status, content_type, len(body)) + body


@lru_cache(_KEPT)
def _page_answer(number: int, pages: int) -> bytes:
    return _answer(page(number, pages), b"text/html; charset=utf-8")


async def serve(pages: int) -> None:
    counts, asked = [0] * pages, Asked()
    server = await asyncio.get_running_loop().create_server(lambda: _Site(pages, counts, asked), "127.0.0.1", 0)
    for number in range(min(pages, _KEPT)):
        _page_answer(number, pages)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
