"""Responses that lie about their length, break off, or never end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat

from crawlfleet.demo_shop.http_messages import write_head, write_response
from testkit.site.connection import Exchange
from testkit.site.nasty.behaviour import Family, chunk, simple_page

FAMILY = Family("body")
HUGE_BYTES = 10_000_000_000
_PAGE = simple_page("Half", f"<p>{'All good things. ' * 50}</p><a href='/nasty/body/unseen'>end</a>").encode()
_HALF = _PAGE[: len(_PAGE) // 2]
_BLOCK = b"<p>" + b"and so on " * 6_553 + b"</p>\n"
_CUT = "a network error that may pass: tries again, keeps nothing of the half"
_LIMIT = "stops at its limit of bytes, with memory that does not grow, and closes"
_PROTOCOL = "an error of the protocol, and the connection is not used again"


@FAMILY.answers("cut-length", "closes after half of the promised length", _CUT)
async def cut_length(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Content-Length", str(len(_PAGE)))]) + _HALF)
    exchange.close()


@FAMILY.answers("cut-chunked", "closes between chunks, without the last one", _CUT)
async def cut_chunked(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Transfer-Encoding", "chunked")]) + chunk(_HALF))
    exchange.close()


@FAMILY.answers("cut-chunk", "closes in the middle of a chunk", _CUT)
async def cut_chunk(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Transfer-Encoding", "chunked")]) + chunk(_PAGE)[: len(_HALF)])
    exchange.close()


@FAMILY.answers("cut-silent", "no length, closes half-way", "cannot know: takes what came as the page")
async def cut_silent(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Connection", "close")]) + _HALF)
    exchange.close()


@FAMILY.answers("reset", "resets the connection half-way", _CUT)
async def reset(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Content-Length", str(len(_PAGE)))]) + _HALF)
    exchange.reset()


@FAMILY.answers("nothing", "closes without a word", _CUT)
async def nothing(exchange: Exchange) -> None:
    exchange.close()


@FAMILY.answers("in-head", "closes in the middle of the head", _CUT)
async def in_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    exchange.close()


@FAMILY.answers("garbage", "answers what is not HTTP", _PROTOCOL)
async def garbage(exchange: Exchange) -> None:
    await exchange.send(b"\x16\x03\x01\x02\x00SSH-2.0-OpenSSH_9.9\r\n\r\n")
    exchange.close()


@FAMILY.answers("length-short", "says 100 bytes, sends more", "takes 100, does not use the connection again")
async def length_short(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Content-Length", "100")]) + _PAGE)
    exchange.close()


@FAMILY.answers("length-long", "says more than it sends, and stays open", "gives up after its limit of time")
async def length_long(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Content-Length", str(len(_PAGE) + 10))]) + _PAGE)
    await exchange.hang()


def _headers(*headers: tuple[str, str]) -> bytes:
    return write_head(200, headers) + _PAGE


for _name, _does, _good, _answer in (
    ("length-negative", "Content-Length: -1", _PROTOCOL, _headers(("Content-Length", "-1"))),
    ("length-words", "Content-Length: many", _PROTOCOL, _headers(("Content-Length", "many"))),
    (
        "length-twice",
        "two lengths that differ",
        _PROTOCOL,
        _headers(("Content-Length", "10"), ("Content-Length", str(len(_PAGE)))),
    ),
    (
        "length-and-chunks",
        "a length and chunks: which counts is how requests are smuggled",
        _PROTOCOL,
        _headers(("Content-Length", "5"), ("Transfer-Encoding", "chunked")),
    ),
    (
        "bad-chunk",
        "a chunk whose size is no number",
        _PROTOCOL,
        write_head(200, [("Transfer-Encoding", "chunked")]) + b"zz\r\n" + _PAGE + b"\r\n0\r\n\r\n",
    ),
    (
        "two-answers",
        "two answers to one request",
        "takes the first, never the second as another page's",
        write_response(200, _PAGE) + write_response(200, simple_page("Poison")),
    ),
):
    FAMILY.add(_name, _does, _good, _answer)


@FAMILY.answers("huge", "a body of 10 GB, as announced", "stops before the first byte, or at its limit of bytes")
async def huge(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Content-Length", str(HUGE_BYTES))]))
    await _stream(exchange, repeat(_BLOCK, HUGE_BYTES // len(_BLOCK)))
    await exchange.send(b" " * (HUGE_BYTES % len(_BLOCK)))


@FAMILY.answers("endless", "a body without length or end", _LIMIT)
async def endless(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Connection", "close")]))
    await _stream(exchange, repeat(_BLOCK))


@FAMILY.answers("endless-chunked", "chunks without end", _LIMIT)
async def endless_chunked(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Transfer-Encoding", "chunked")]))
    await _stream(exchange, repeat(chunk(_BLOCK)))


@FAMILY.answers("endless-trailers", "a small chunked page, then trailers without end", _LIMIT)
async def endless_trailers(exchange: Exchange) -> None:
    await exchange.send(write_head(200, [("Transfer-Encoding", "chunked")]) + chunk(_PAGE) + b"0\r\n")
    await _stream(exchange, _header_lines())


@FAMILY.answers("endless-headers", "headers without end", _LIMIT)
async def endless_headers(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    await _stream(exchange, _header_lines())


@FAMILY.answers("endless-header", "one header without end", _LIMIT)
async def endless_header(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    await _stream(exchange, repeat(b"a" * 16_384))


@FAMILY.answers(
    "endless-hints", "103 Early Hints without end, never an answer", "gives up after a limit of time or number"
)
async def endless_hints(exchange: Exchange) -> None:
    await _stream(exchange, repeat(b"HTTP/1.1 103 Early Hints\r\nLink: </x.css>; rel=preload\r\n\r\n" * 20))


async def _stream(exchange: Exchange, blocks: Iterator[bytes] | repeat[bytes]) -> None:
    for block in blocks:
        await exchange.send(block)


def _header_lines() -> Iterator[bytes]:
    return (
        b"".join(b"X-Header-%d: %d\r\n" % (number + offset, offset) for offset in range(200))
        for number in count(0, 200)
    )
