"""Content encodings: good ones, bombs, broken ones, nested ones."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from functools import cache

import brotli  # type: ignore[import-untyped]
import zstandard

from crawlfleet.demo_shop.http_messages import write_response
from testkit.site.connection import Answerer, Exchange
from testkit.site.nasty.behaviour import Family, simple_page

FAMILY = Family("encoding")
BOMB_BYTES = 512 * 1024 * 1024
PAGE = simple_page("Packed", "<p>" + "Grüße aus der Schachtel. " * 40 + "</p>").encode()
_MEGABYTE = b"\0" * (1024 * 1024)
_READS = "reads the page"
_BROKEN = "an error of this page only: nothing of it is kept, the connection is not used again"
_LIMIT = "stops at its limit of unpacked bytes, while it unpacks: memory stays small"
NESTED = 20


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _zstd(data: bytes) -> bytes:
    return zstandard.compress(data)


def _br(data: bytes) -> bytes:
    packed: bytes = brotli.compress(data)
    return packed


def _declare_encoding(encoding: str, body: bytes) -> bytes:
    return write_response(200, body, [("Content-Encoding", encoding)])


def _many(data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = _gzip(data)
    return data


for _name, _does, _good, _answer in (
    ("gzip", "gzip", _READS, _declare_encoding("gzip", _gzip(PAGE))),
    ("x-gzip", "gzip under its old name, in capitals", _READS, _declare_encoding("X-GZIP", _gzip(PAGE))),
    ("deflate", "deflate", _READS, _declare_encoding("deflate", zlib.compress(PAGE))),
    (
        "raw-deflate",
        "deflate without the frame that the standard asks for",
        _READS,
        _declare_encoding("deflate", _raw_deflate(PAGE)),
    ),
    ("br", "brotli", _READS, _declare_encoding("br", _br(PAGE))),
    ("zstd", "zstd", _READS, _declare_encoding("zstd", _zstd(PAGE))),
    ("identity", "the encoding `identity`", _READS, _declare_encoding("identity", PAGE)),
    ("members", "two gzip members, one page", _READS, _declare_encoding("gzip", _gzip(PAGE[:200]) + _gzip(PAGE[200:]))),
    ("nested", "gzip in gzip", "reads the page, or refuses it", _declare_encoding("gzip, gzip", _many(PAGE, 2))),
    ("mixed", "gzip in brotli", "reads the page, or refuses it", _declare_encoding("gzip, br", _br(_gzip(PAGE)))),
    (
        "very-nested",
        f"gzip, {NESTED} times",
        "refuses more than a few layers",
        _declare_encoding(", ".join(["gzip"] * NESTED), _many(PAGE, NESTED)),
    ),
    (
        "cut",
        "a gzip that ends half-way, under a length that is right",
        _BROKEN,
        _declare_encoding("gzip", _gzip(PAGE)[:60]),
    ),
    (
        "corrupt",
        "a gzip with wrong bytes in it",
        _BROKEN,
        _declare_encoding("gzip", _gzip(PAGE)[:30] + b"\xff" * 40 + _gzip(PAGE)[70:]),
    ),
    ("checksum", "a gzip with a wrong checksum", _BROKEN, _declare_encoding("gzip", _gzip(PAGE)[:-8] + b"\0" * 8)),
    (
        "tail",
        "a gzip with rubbish after it",
        "reads the page, or refuses it",
        _declare_encoding("gzip", _gzip(PAGE) + b"rubbish"),
    ),
    ("not", "says gzip, is plain text", "an error of this page, or reads it as it is", _declare_encoding("gzip", PAGE)),
    (
        "unsaid",
        "is gzip and does not say so",
        "does not take it for text: no items of it",
        write_response(200, _gzip(PAGE)),
    ),
    (
        "unknown",
        "an encoding that does not exist",
        "refuses the page, names the encoding",
        _declare_encoding("x-magic", PAGE),
    ),
    ("empty", "says gzip, with no body", "an empty page", _declare_encoding("gzip", b"")),
):
    FAMILY.add(_name, _does, _good, _answer)


def _zlib_bomb() -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    return _fill(packer.compress) + packer.flush()


def _br_bomb() -> bytes:
    packer = brotli.Compressor(quality=1)
    packed: bytes = _fill(packer.process) + packer.finish()
    return packed


def _zstd_bomb() -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    return _fill(packer.compress) + packer.flush()


def _nested_bomb() -> bytes:
    return _gzip(bomb("gzip-bomb"))


def _fill(pack: Callable[[bytes], bytes]) -> bytes:
    return b"".join(pack(_MEGABYTE) for _ in range(BOMB_BYTES // len(_MEGABYTE)))


# Made at the first request, and once: a second of work each.
_BOMBS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "gzip-bomb": ("gzip", "in gzip", _zlib_bomb),
    "br-bomb": ("br", "in brotli", _br_bomb),
    "zstd-bomb": ("zstd", "in zstd", _zstd_bomb),
    "nested-bomb": ("gzip, gzip", "in gzip in gzip: a few kilobytes", _nested_bomb),
}


@cache
def bomb(name: str) -> bytes:
    return _BOMBS[name][2]()


def _bomb_answer(name: str) -> Answerer:
    async def answer(exchange: Exchange) -> None:
        await exchange.send(_declare_encoding(_BOMBS[name][0], await asyncio.to_thread(bomb, name)))

    return answer


for _name, (_, _does, _make) in _BOMBS.items():
    FAMILY.add(_name, f"{BOMB_BYTES >> 20} MB of zeros {_does}", _LIMIT, _bomb_answer(_name))
