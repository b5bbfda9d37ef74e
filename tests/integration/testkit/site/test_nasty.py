"""Each nasty behaviour really happens as its row of the table says, seen from below HTTP and bounded in time."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from testkit.patience import PATIENCE_S, promised
from testkit.site import BEHAVIOURS, RunningSite, SiteOptions, running_site
from testkit.site.nasty import bodies, encodings, refusals
from tests.integration.testkit.site.nasty_kit import ask

pytestmark = pytest.mark.integration


@pytest.fixture
async def site() -> AsyncIterator[RunningSite]:
    async with running_site(SiteOptions(products=30)) as running:
        yield running


NOT_WHOLE = {
    "stall": "before in-head in-body drip drip-chunked drip-head no-end slow",
    "robots": "stall slow endless reset",
    "body": (
        "length-long length-negative length-words length-and-chunks length-short length-twice endless endless-chunked "
        "endless-trailers endless-headers endless-header endless-hints huge nothing in-head garbage reset cut-length "
        "cut-chunk cut-chunked cut-silent bad-chunk two-answers"
    ),
    "answer": "http-1.0 http-0.9 204 switch line-feeds continue hints bad-header",
    "redirect": "304",
    "markup": "one-line",
}
"""Those that break HTTP, or take their time: each has a test below."""


async def test_every_other_behaviour_is_one_well_formed_answer(site: RunningSite) -> None:
    async def is_whole(path: str) -> bool:
        return (await ask(site, path, most=12_000_000, silence_s=5)).is_whole

    broken = {f"/nasty/{family}/{name}" for family, names in NOT_WHOLE.items() for name in names.split()}
    paths = [it.path for it in BEHAVIOURS if it.path not in broken and not it.path.endswith("bomb")]
    for some in (paths[at : at + 20] for at in range(0, len(paths), 20)):
        whole = await asyncio.gather(*map(is_whole, some))
        assert [path for path, is_good in zip(some, whole, strict=True) if not is_good] == []
    assert len(broken) + len(paths) + 5 == len(BEHAVIOURS)


async def test_the_index_links_to_each(site: RunningSite) -> None:
    index = (await ask(site, "/nasty/")).body.decode()
    assert all(f'href="{behaviour.path}"' in index for behaviour in BEHAVIOURS)
    assert len({behaviour.path for behaviour in BEHAVIOURS}) == len(BEHAVIOURS) > 150
    assert (await ask(site, "/nasty/no/such")).status == 404


# --- refusals


@pytest.mark.parametrize(("name", "wait"), [("rate", "1"), ("rate-silent", None), ("rate-date", "date")])
async def test_429_by_measured_rate(
    site: RunningSite, name: str, wait: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(site.site.memory, "clock", lambda: now)
    heard = await asyncio.gather(*(ask(site, f"/nasty/refuse/{name}") for _ in range(refusals.MOST_PER_SECOND + 2)))
    assert sorted(it.status for it in heard) == [200] * refusals.MOST_PER_SECOND + [429] * 2
    said = max(heard, key=lambda it: it.status).headers["Retry-After"]
    if wait == "date":
        assert 0 < (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds() <= 3
    else:
        assert said == wait
    # Those who are turned away do not count: in a second there is room again, however often they ask.
    now = 100.9
    assert (await ask(site, f"/nasty/refuse/{name}")).status == 429
    now = 101.0
    assert (await ask(site, f"/nasty/refuse/{name}")).status == 200


@pytest.mark.parametrize(
    ("name", "status", "wait"),
    [
        ("429", 429, "2"),
        ("503", 503, "2"),
        ("503-silent", 503, None),
        ("403", 403, None),
        ("401", 401, None),
        ("500", 500, None),
        ("451", 451, None),
        ("captcha", 200, None),
        ("challenge", 503, None),
        ("broken-wait", 429, "soon"),
        ("negative-wait", 429, "-5"),
        ("for-ever", 429, "315360000"),
    ],
)
async def test_refusals(site: RunningSite, name: str, status: int, wait: str | None) -> None:
    heard = await ask(site, f"/nasty/refuse/{name}")
    assert (heard.status, heard.headers["Retry-After"]) == (status, wait)


async def test_flaky_once_and_banned_in_the_end(site: RunningSite) -> None:
    flaky = [(await ask(site, f"/nasty/refuse/flaky/{page}")).status for page in (1, 1, 2, 2, 1)]
    assert flaky == [503, 200, 503, 200, 200]
    pages = [(await ask(site, "/nasty/refuse/ban")).status for _ in range(refusals.BAN_AFTER + 1)]
    assert pages == [200] * refusals.BAN_AFTER + [403]
    assert (await ask(site, "/nasty/refuse/ban", host="another.test")).status == 200


# --- stalls


@pytest.mark.parametrize(
    ("name", "begins", "least", "most"),
    [
        ("before", b"", 0, 0),
        ("in-head", b"HTTP/1.1 200", 10, 100),
        ("in-body", b"HTTP/1.1 200", 100, 400),
        ("no-end", b"HTTP/1.1 200", 100, 400),
        ("drip", b"HTTP/1.1 200", 50, 130),
        ("drip-head", b"HTTP/1.1 200", 20, 60),
        ("drip-chunked", b"HTTP/1.1 200", 50, 130),
    ],
)
async def test_stalls(site: RunningSite, name: str, begins: bytes, least: int, most: int) -> None:
    heard = await ask(site, f"/nasty/stall/{name}", silence_s=0.3, first_s=20 if least else 0.3)
    assert heard.ended == "silent"
    assert heard.raw.startswith(begins)
    assert least <= len(heard.raw) <= most


async def test_a_byte_a_second(site: RunningSite) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 3600\r\n\r\n"
    heard = await ask(site, "/nasty/stall/drip", silence_s=20, most=len(head) + 3)
    assert heard.raw == head + b"..."
    assert 1.9 < heard.took_s < 10


async def test_slow_pages_come(site: RunningSite) -> None:
    page, robots = await asyncio.gather(ask(site, "/nasty/stall/slow"), ask(site, "/nasty/robots/slow"))
    assert page.is_whole and page.took_s > 1.9
    assert robots.is_whole and 0.9 < robots.took_s < page.took_s
    assert (await ask(site, "/nasty/robots/stall", first_s=0.3)).raw == b""


async def test_a_stalled_answer_ends_with_its_visitor(site: RunningSite) -> None:
    await ask(site, "/nasty/stall/before", first_s=0.1)
    await ask(site, "/nasty/body/endless", most=100_000)
    async with asyncio.timeout(PATIENCE_S):
        for connection in site.open_connections:
            await connection.ended.wait()
    assert not site.open_connections


# --- bodies


@pytest.mark.parametrize(
    "name", ["cut-length", "cut-chunked", "cut-chunk", "cut-silent", "nothing", "in-head", "garbage"]
)
async def test_closes_early(site: RunningSite, name: str) -> None:
    heard = await ask(site, f"/nasty/body/{name}")
    assert heard.ended == "closed"
    assert b"unseen" not in heard.raw
    if name == "cut-length":
        assert 0 < len(heard.body) < int(heard.headers["Content-Length"])
    elif name in {"cut-chunked", "cut-chunk"}:
        assert heard.headers["Transfer-Encoding"] == "chunked"
        assert not heard.raw.endswith(b"0\r\n\r\n")
    elif name == "cut-silent":
        assert heard.body and heard.headers["Content-Length"] is None
    else:
        assert not heard.raw or b"\r\n\r\n" not in heard.raw or name == "garbage"


async def test_resets(site: RunningSite) -> None:
    # What a socket had not read yet may be lost in a reset; the end is one in any case.
    assert (await ask(site, "/nasty/body/reset")).ended == "reset"
    assert (await ask(site, "/nasty/robots/reset")).ended == "reset"


async def test_lengths_that_lie(site: RunningSite) -> None:
    short = await ask(site, "/nasty/body/length-short", beyond=True)
    assert int(short.headers["Content-Length"]) < len(short.body)
    long = await ask(site, "/nasty/body/length-long")
    assert int(long.headers["Content-Length"]) == len(long.body) + 10
    assert long.ended == "silent"
    twice = (await ask(site, "/nasty/body/length-twice", beyond=True)).headers.get_all("Content-Length") or []
    assert len(set(twice)) == 2
    assert (await ask(site, "/nasty/body/length-negative")).headers["Content-Length"] == "-1"
    assert (await ask(site, "/nasty/body/length-words")).headers["Content-Length"] == "many"
    both = (await ask(site, "/nasty/body/length-and-chunks")).headers
    assert both["Content-Length"] and both["Transfer-Encoding"] == "chunked"
    assert (await ask(site, "/nasty/body/bad-chunk")).body.startswith(b"zz\r\n")
    assert (await ask(site, "/nasty/body/two-answers", beyond=True)).raw.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize(
    "name",
    ["huge", "endless", "endless-chunked", "endless-trailers", "endless-headers", "endless-header", "endless-hints"],
)
async def test_without_end(site: RunningSite, name: str) -> None:
    heard = await ask(site, f"/nasty/body/{name}", most=2_000_000)
    assert heard.ended == "full"
    assert heard.took_s < 20
    if name == "huge":
        assert int(heard.headers["Content-Length"]) == bodies.HUGE_BYTES
    elif name in {"endless-headers", "endless-header"}:
        assert b"\r\n\r\n" not in heard.raw
    elif name == "endless-hints":
        assert b"HTTP/1.1 200" not in heard.raw


async def test_an_endless_answer_leaves_time_for_others(site: RunningSite) -> None:
    """And is not gathered in memory for one who does not read."""
    port = int(site.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
    writer.write(b"GET /nasty/body/endless HTTP/1.1\r\nHost: x\r\n\r\n")
    began = time.monotonic()
    for _ in range(20):
        assert (await ask(site, "/products/1")).status == 200
    assert time.monotonic() - began < promised(5)
    assert max(connection.transport.get_write_buffer_size() for connection in site.open_connections) < 1_000_000
    writer.transport.abort()


# --- encodings


@pytest.mark.parametrize(
    "name", ["gzip", "x-gzip", "deflate", "raw-deflate", "br", "zstd", "members", "nested", "mixed", "very-nested"]
)
async def test_good_encodings(site: RunningSite, name: str) -> None:
    heard = await ask(site, f"/nasty/encoding/{name}")
    body = heard.body
    for encoding in reversed(heard.headers["Content-Encoding"].lower().split(", ")):
        match encoding, name:
            case "gzip" | "x-gzip", _:
                body = gzip.decompress(body)
            case "deflate", "raw-deflate":
                body = zlib.decompress(body, -15)
            case "deflate", _:
                body = zlib.decompress(body)
            case "br", _:
                body = brotli.decompress(body)
            case _:
                body = zstandard.decompress(body)
    assert body == encodings.PAGE


async def test_broken_encodings(site: RunningSite) -> None:
    for name in ("cut", "corrupt", "checksum", "tail", "not", "empty"):
        body = (await ask(site, f"/nasty/encoding/{name}")).body
        if name == "empty":
            assert body == b""
            continue
        with pytest.raises((EOFError, OSError, zlib.error)):
            gzip.decompress(body)
    unsaid = await ask(site, "/nasty/encoding/unsaid")
    assert unsaid.headers["Content-Encoding"] is None
    assert gzip.decompress(unsaid.body) == encodings.PAGE
    assert (await ask(site, "/nasty/encoding/unknown")).headers["Content-Encoding"] == "x-magic"


@pytest.mark.parametrize("name", ["gzip-bomb", "br-bomb", "zstd-bomb", "nested-bomb"])
async def test_bombs(site: RunningSite, name: str) -> None:
    heard = await ask(site, f"/nasty/encoding/{name}", silence_s=20, most=10_000_000)
    assert heard.is_whole
    # Small on the way, and large behind: the first megabytes are enough to see it.
    assert len(heard.body) < 5_000_000
    body = gzip.decompress(heard.body) if name == "nested-bomb" else heard.body
    assert _unpacked_bytes(heard.headers["Content-Encoding"].partition(",")[0], body) == encodings.BOMB_BYTES


def _unpacked_bytes(encoding: str, body: bytes) -> int:
    """Counted in pieces, without holding it."""
    if encoding == "zstd":
        return sum(len(part) for part in zstandard.ZstdDecompressor().read_to_iter(body))
    unpack = brotli.Decompressor().process if encoding == "br" else zlib.decompressobj(31).decompress
    return sum(len(unpack(body[at : at + 256])) for at in range(0, len(body), 256))
