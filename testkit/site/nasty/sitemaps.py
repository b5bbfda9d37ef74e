"""Sitemaps: loops, bombs, broken ones, and very large ones."""

from __future__ import annotations

import asyncio
import gzip
from functools import cache

from crawlfleet.demo_shop.http_messages import write_response
from crawlfleet.demo_shop.sitemap import write_urlset
from testkit.site.connection import Answer, Exchange
from testkit.site.nasty.behaviour import Family, simple_page
from testkit.site.nasty.encodings import bomb
from testkit.site.sitemap_index import write_index

FAMILY = Family("sitemap")
BIG_ENTRIES = 50_000
_XML = "application/xml"
_READS = "reads it"
_BOUNDED = "stops at a limit of files, and has what the good ones name"
_ENTITIES = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "laugh">'
    + "".join(f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True))
    + '<!ENTITY file SYSTEM "file:///etc/passwd">]><urlset><url><loc>/x?&i;&file;</loc></url></urlset>'
)


def _xml(body: bytes) -> bytes:
    return write_response(200, body, content_type=_XML)


def _absolute_url(exchange: Exchange, path: str) -> str:
    return f"{exchange.request.origin}{path}"


def _good(exchange: Exchange) -> bytes:
    return write_urlset((_absolute_url(exchange, f"/outlet/{number}"), "2026-01-01") for number in (1, 2, 3))


@FAMILY.answers("good", "three pages, with lastmod", _READS)
def good(exchange: Exchange) -> Answer:
    return _xml(_good(exchange))


@FAMILY.answers("gzip", "the same, as a .gz file", _READS)
def packed(exchange: Exchange) -> Answer:
    return write_response(200, gzip.compress(_good(exchange), mtime=0), content_type="application/gzip")


@FAMILY.answers("gzip-encoded", "the same .gz file, and gzip on the way", _READS)
def packed_twice(exchange: Exchange) -> Answer:
    twice = gzip.compress(gzip.compress(_good(exchange), mtime=0), mtime=0)
    return write_response(200, twice, [("Content-Encoding", "gzip")], "application/gzip")


@FAMILY.answers("text", "a list of addresses as plain text", "reads it, or says that it does not")
def text(exchange: Exchange) -> Answer:
    return write_response(
        200, "".join(_absolute_url(exchange, f"/outlet/{number}\n") for number in (1, 2, 3)), content_type="text/plain"
    )


@FAMILY.answers("prefixed", "names with a namespace prefix, spaces and CDATA", _READS)
def prefixed(exchange: Exchange) -> Answer:
    plain = (
        _good(exchange)
        .decode()
        .replace("<loc>", "<loc> <![CDATA[")
        .replace("</loc>", "]]> </loc>")
        .replace("xmlns=", "xmlns:s=")
    )
    for tag in ("urlset", "url", "loc", "lastmod"):
        plain = (
            plain.replace(f"<{tag}>", f"<s:{tag}>")
            .replace(f"<{tag} ", f"<s:{tag} ")
            .replace(f"</{tag}>", f"</s:{tag}>")
        )
    return _xml(plain.encode())


@FAMILY.answers(
    "nested", "an index of an index of a good one, which the standard forbids", "reads it, or stops at a depth"
)
def nested(exchange: Exchange) -> Answer:
    deeper = exchange.request.path.endswith("/in")
    return _xml(
        write_index([(_absolute_url(exchange, "/nasty/sitemap/good" if deeper else "/nasty/sitemap/nested/in"), None)])
    )


@FAMILY.answers("loop", "two indexes that name each other, and a good one", _BOUNDED)
def loop(exchange: Exchange) -> Answer:
    other = "/nasty/sitemap/loop" if exchange.request.path.endswith("/back") else "/nasty/sitemap/loop/back"
    return _xml(
        write_index([(_absolute_url(exchange, other), None), (_absolute_url(exchange, "/nasty/sitemap/good"), None)])
    )


@FAMILY.answers("self", "an index that names itself", _BOUNDED)
def itself(exchange: Exchange) -> Answer:
    return _xml(write_index([(_absolute_url(exchange, "/nasty/sitemap/self"), None)]))


@FAMILY.answers("endless", "an index of ten indexes not seen before, and so on", _BOUNDED)
def endless(exchange: Exchange) -> Answer:
    path = exchange.request.path if len(exchange.request.path) < 2_000 else "/nasty/sitemap/endless"
    return _xml(write_index((_absolute_url(exchange, f"{path}/{number}"), None) for number in range(10)))


@cache
def _big(origin: str) -> bytes:
    return write_urlset(
        (f"{origin}/nasty/answer/soft-404/{number}", "2026-01-01T00:00:00Z") for number in range(BIG_ENTRIES)
    )


@FAMILY.answers(
    "big", f"{BIG_ENTRIES:,} entries, the most that is allowed", "reads them as a stream, within its limits"
)
def big(exchange: Exchange) -> Answer:
    return _xml(_big(exchange.request.origin))


@FAMILY.answers("foreign", "pages of another host beside its own", "ignores those of others")
def foreign(exchange: Exchange) -> Answer:
    return _xml(
        write_urlset(
            [
                ("http://other.example/x", None),
                ("file:///etc/passwd", None),
                (_absolute_url(exchange, "/outlet/1"), None),
            ]
        )
    )


@FAMILY.answers("broken", "XML that breaks off after two entries", "takes the two, or none; the crawl goes on")
def broken(exchange: Exchange) -> Answer:
    whole = _good(exchange)
    return _xml(whole[: whole.rindex(b"</loc>")])


@FAMILY.answers("cut-gzip", "a .gz file that breaks off", "takes what it can, or none; the crawl goes on")
def cut_gzip(exchange: Exchange) -> Answer:
    return write_response(200, gzip.compress(_good(exchange), mtime=0)[:-20], content_type="application/gzip")


@FAMILY.answers("lastmod", "lastmod in every form, most of them wrong", "takes the dates it can read, and every page")
def lastmod(exchange: Exchange) -> Answer:
    forms = (
        "2026",
        "2026-01",
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00+02:00",
        "yesterday",
        "0000-00-00",
        "",
    )
    return _xml(
        write_urlset(
            (_absolute_url(exchange, f"/outlet/{number}"), form or " ") for number, form in enumerate(forms, 1)
        )
    )


FAMILY.add(
    "entities",
    "entities that grow tenfold nine times, and one that reads a file",
    "expands none of them",
    _xml(_ENTITIES.encode()),
)
FAMILY.add("html", "a page instead", "no entries; the crawl goes on", write_response(200, simple_page("Sitemap")))
FAMILY.add("404", "404", "no entries; the crawl goes on", write_response(404, ""))
FAMILY.add("empty", "no entries", "no entries; the crawl goes on", _xml(write_urlset([])))


@FAMILY.answers("bomb", "512 MB of zeros as a .gz file", "stops at its limit of unpacked bytes")
async def bombed(exchange: Exchange) -> None:
    await exchange.send(
        write_response(200, await asyncio.to_thread(bomb, "gzip-bomb"), content_type="application/gzip")
    )
