"""Slow sites: before the response, in the middle of it, or for ever."""

from __future__ import annotations

import asyncio

from crawlfleet.demo_shop.http_messages import write_head, write_response
from testkit.site.connection import Exchange
from testkit.site.nasty.behaviour import Family, ok, simple_page

FAMILY = Family("stall")
SLOW_S = 2.0
DRIP_S = 1.0
_PAGE = simple_page("Slow", "<p>Thank you for waiting.</p>").encode()
_GIVES_UP = "gives up after its own limit of time, and frees the connection"


@FAMILY.answers("slow", f"the page, after {SLOW_S:.0f} seconds", "has the page")
async def slow(exchange: Exchange) -> None:
    await asyncio.sleep(SLOW_S)
    await exchange.send(ok("Slow", "<p>Thank you for waiting.</p>"))


@FAMILY.answers("before", "reads the request and says nothing, for ever", _GIVES_UP)
async def before(exchange: Exchange) -> None:
    await exchange.hang()


@FAMILY.answers("in-head", "stops after the first header, for ever", _GIVES_UP)
async def in_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Next")
    await exchange.hang()


@FAMILY.answers("in-body", "sends half of the body and stops, for ever", _GIVES_UP)
async def in_body(exchange: Exchange) -> None:
    await exchange.send(write_response(200, _PAGE)[: -len(_PAGE) // 2])
    await exchange.hang()


@FAMILY.answers("drip", "a body of 3,600 bytes, one a second", "has a limit for the whole page, not only between bytes")
async def drip(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Content-Length", "3600")]))
    await _drip(exchange)


@FAMILY.answers("drip-chunked", "endless chunks of one byte, one a second", "has a limit for the whole page")
async def drip_chunked(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Transfer-Encoding", "chunked")]))
    await _drip(exchange, b"1\r\n.\r\n")


@FAMILY.answers("drip-head", "an endless header, one byte a second", "has a limit for the whole page")
async def drip_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    await _drip(exchange)


@FAMILY.answers("no-end", "the page without a length, and never closes", "gives up after its limit of time")
async def no_end(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Connection", "close")]) + _PAGE)
    await exchange.hang()


async def _drip(exchange: Exchange, byte: bytes = b".") -> None:
    while True:
        await exchange.send(byte)
        await asyncio.sleep(DRIP_S)
