"""The pages of the nasty site: charsets, markup, redirects, sessions, traps and odd answers are as the table says."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest
from lxml import etree  # type: ignore[import-untyped]
from protego import Protego

from testkit.site import RunningSite, SiteOptions, running_site
from testkit.site.nasty import answers, charsets, markup
from testkit.site.nasty.redirects import FAMILY as REDIRECTS
from tests.integration.testkit.site.nasty_kit import ask

pytestmark = pytest.mark.integration


@pytest.fixture
async def site() -> AsyncIterator[RunningSite]:
    async with running_site(SiteOptions(products=30)) as running:
        yield running


# --- charsets, types, markup


@pytest.mark.parametrize("case", charsets.CASES, ids=lambda case: case.name)
async def test_charsets(site: RunningSite, case: charsets.Case) -> None:
    heard = await ask(site, f"/nasty/charset/{case.name}")
    assert heard.headers["Content-Type"] == case.content_type
    codecs = ("utf-8-sig", "gb18030", "shift_jis", "big5", "euc_kr", "cp1251", "cp1252", "utf-16", "utf-16-le")
    title = f"<title>{case.text}"
    assert any(title in heard.body.decode(codec, "replace") for codec in codecs)


async def test_types(site: RunningSite) -> None:
    assert (await ask(site, "/nasty/type/plain")).headers["Content-Type"] == "text/plain"
    assert (await ask(site, "/nasty/type/none")).headers["Content-Type"] is None
    assert len((await ask(site, "/nasty/type/twice")).headers.get_all("Content-Type") or []) == 2
    assert (await ask(site, "/nasty/type/pdf")).body.startswith(b"%PDF")
    picture = await ask(site, "/nasty/type/jpeg")
    assert picture.body.startswith(b"\xff\xd8") and picture.headers["Content-Type"].startswith("text/html")


async def test_markup(site: RunningSite) -> None:
    async def body(name: str) -> bytes:
        return (await ask(site, f"/nasty/markup/{name}", most=8_000_000)).body

    assert (await body("deep")).count(b"<div>") == markup.DEPTH
    assert (await body("links")).count(b"<a href") == markup.LINKS
    assert (await body("fake-links")).count(markup.FAKE.encode()) > 8
    assert b"\0" in await body("nulls")
    assert b"<" not in await body("text")
    assert (await body("attributes")).count(b"=") > 99_999
    line = await ask(site, "/nasty/markup/one-line", most=5_000_000)
    assert int(line.headers["Content-Length"]) == markup.LINE_BYTES
    assert line.ended == "full" and b"<" not in line.body and b"\n" not in line.body


# --- redirects


async def hops(site: RunningSite, path: str, most: int = 60) -> list[str]:
    seen = [path]
    while len(seen) <= most:
        heard = await ask(site, seen[-1])
        if heard.status not in {301, 302, 303, 307, 308}:
            break
        seen.append(heard.headers["Location"])
    return seen


async def test_redirects_lead_where_they_say(site: RunningSite) -> None:
    assert len(await hops(site, "/nasty/redirect/chain")) == 51
    assert len(await hops(site, "/nasty/redirect/chain/3")) == 4
    assert len(set(await hops(site, "/nasty/redirect/loop", 9))) == 2
    assert len(set(await hops(site, "/nasty/redirect/self", 9))) == 1
    assert len(set(await hops(site, "/nasty/redirect/endless", 9))) == 10
    assert len((await hops(site, "/nasty/redirect/growing", 9))[-1]) > 80
    assert (await ask(site, "/nasty/redirect/none")).headers["Location"] is None
    assert (await ask(site, "/nasty/redirect/304")).raw.startswith(b"HTTP/1.1 304")
    assert (await ask(site, "/nasty/redirect/protocol-relative", host="a.test")).headers[
        "Location"
    ] == "//a.test/nasty/redirect/end"
    assert (await ask(site, "/nasty/redirect/cookie")).headers["Set-Cookie"].startswith("seen=yes")
    assert (await ask(site, "/nasty/redirect/cookie", headers=("Cookie: seen=yes",))).status == 200


async def test_redirects_to_where_nobody_should_go(site: RunningSite) -> None:
    found = set()
    for behaviour in REDIRECTS.behaviours:
        if "refused" in behaviour.good:
            found.add((await ask(site, behaviour.path)).headers["Location"].partition("/latest")[0])
    assert {
        "http://127.0.0.1:1/",
        "http://[::1]:1/",
        "http://169.254.169.254",
        "file:///etc/passwd",
        "javascript:alert(1)",
    } <= found


# --- sessions, traps, answers


async def test_sessions(site: RunningSite) -> None:
    assert await hops(site, "/nasty/session/cookie", 4) == [
        "/nasty/session/cookie",
        "/nasty/session/cookie/set",
    ] * 2 + ["/nasty/session/cookie"]
    assert (await ask(site, "/nasty/session/cookie", headers=("Cookie: a=b; visitor=17",))).status == 200
    assert (await ask(site, "/nasty/session/members")).headers["Location"] == "/nasty/session/login"
    wrong = await ask(site, "/nasty/session/login", method="POST", body=b"user=x&password=y")
    assert wrong.status == 403
    right = await ask(site, "/nasty/session/login", method="POST", body=b"user=crawler&password=open-sesame")
    assert (right.status, right.headers["Set-Cookie"].partition(";")[0]) == (303, "member=yes")
    assert (await ask(site, "/nasty/session/members", headers=("Cookie: member=yes",))).status == 200
    assert b"Please log in" in (await ask(site, "/nasty/session/wall")).body
    echo = await ask(site, "/nasty/session/echo", headers=("Cookie: b=1; a=2",))
    assert b'"cookies">a b<' in echo.body


@pytest.mark.parametrize("name", ["calendar", "session", "deeper", "relative/", "facets", "counter", "words", "soft"])
async def test_traps_have_no_end(site: RunningSite, name: str) -> None:
    """A walk that always takes a link it has not seen is still not out after thirty pages."""
    path, seen = f"/nasty/trap/{name}", set[str]()
    for _ in range(30):
        seen.add(path)
        body = (await ask(site, path)).body.decode()
        hrefs = [part.partition('"')[0].replace("&amp;", "&") for part in body.split('href="')[1:]]
        targets = [href if href.startswith("/") else f"{path}{href}" for href in hrefs if not href.startswith("..")]
        path = next(target for target in targets if target not in seen)
        assert path.startswith(f"/nasty/trap/{name.rstrip('/')}")
    assert len(seen) == 30


async def test_answers(site: RunningSite) -> None:
    for name, status in (("404", 404), ("410", 410), ("soft-404", 200), ("204", 204), ("999", 999), ("206", 206)):
        assert (await ask(site, f"/nasty/answer/{name}")).status == status
    empty = await ask(site, "/nasty/answer/empty")
    assert (empty.status, empty.body) == (200, b"")
    old = await ask(site, "/nasty/answer/http-1.0")
    assert old.raw.startswith(b"HTTP/1.0 200") and old.headers["Content-Length"] is None and old.ended == "closed"
    assert (await ask(site, "/nasty/answer/http-0.9")).raw.startswith(b"<!doctype html>")
    assert b"\r\n" not in (await ask(site, "/nasty/answer/line-feeds")).raw
    assert (await ask(site, "/nasty/answer/continue")).raw.startswith(b"HTTP/1.1 100 ")
    assert (await ask(site, "/nasty/answer/hints")).raw.startswith(b"HTTP/1.1 103 ")
    assert b"\r\nNonsense\r\n" in (await ask(site, "/nasty/answer/bad-header")).raw
    assert (await ask(site, "/nasty/answer/switch")).raw.startswith(b"HTTP/1.1 101 ")
    first, second = [(await ask(site, "/nasty/answer/fresh")).headers["ETag"] for _ in range(2)]
    assert first != second


async def test_connections_that_close(site: RunningSite) -> None:
    assert await served_on_one_connection(site, "/nasty/answer/closes-after") == answers.CLOSES_AFTER
    assert await served_on_one_connection(site, "/nasty/answer/closes-always") == 1
    assert await served_on_one_connection(site, "/nasty/answer/closes-next") == 1
    assert await served_on_one_connection(site, "/products/1") == 10


async def test_what_is_no_request_is_refused(site: RunningSite) -> None:
    bad = (
        "GET / HTTP/2",
        "nonsense",
        "GET / HTTP/1.1\r\nContent-Length: -1",
        f"GET / HTTP/1.1\r\nContent-Length: {'9' * 5_000}",
    )
    for head in bad:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(site.url.rpartition(":")[2]))
        writer.write(f"{head}\r\n\r\n".encode())
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 400"), head
        writer.close()
    assert (await ask(site, "/", method="DELETE")).status == 405
    assert (await ask(site, "/", method="HEAD", beyond=True)).body == b""


async def served_on_one_connection(site: RunningSite, path: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(site.url.rpartition(":")[2]))
    served = 0
    try:
        for _ in range(10):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 2)
            assert b"Connection: close" not in head
            await reader.readexactly(int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]))
            served += 1
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.transport.abort()
    return served


# --- sitemaps and robots


async def named(site: RunningSite, name: str, unpack: bool = False) -> list[str]:
    """As a parser of XML reads it: the addresses, without the host."""
    body = (await ask(site, f"/nasty/sitemap/{name}", most=12_000_000, silence_s=5)).body
    tree = etree.fromstring(gzip.decompress(body) if unpack else body, etree.XMLParser(resolve_entities=False))
    return [(it.text or "").strip().removeprefix(site.url) for it in tree.iter("{*}loc")]


async def test_sitemaps(site: RunningSite) -> None:
    good = [f"/outlet/{number}" for number in (1, 2, 3)]
    assert await named(site, "good") == await named(site, "prefixed") == await named(site, "gzip", unpack=True) == good
    twice = (await ask(site, "/nasty/sitemap/gzip-encoded")).body
    assert gzip.decompress(gzip.decompress(twice)).count(b"<loc>") == 3
    assert (await ask(site, "/nasty/sitemap/text")).body.decode().split() == [f"{site.url}{path}" for path in good]
    assert await named(site, "loop") == ["/nasty/sitemap/loop/back", "/nasty/sitemap/good"]
    assert await named(site, "loop/back") == ["/nasty/sitemap/loop", "/nasty/sitemap/good"]
    assert await named(site, "self") == ["/nasty/sitemap/self"]
    assert await named(site, "nested/in") == ["/nasty/sitemap/good"]
    assert len(await named(site, "endless/3/4")) == 10
    assert len(await named(site, "big")) == 50_000
    assert "file:///etc/passwd" in await named(site, "foreign")
    assert len(await named(site, "lastmod")) == 8


async def test_broken_sitemaps(site: RunningSite) -> None:
    broken = (await ask(site, "/nasty/sitemap/broken")).body
    assert (broken.count(b"<loc>"), broken.count(b"</url>")) == (3, 2)
    with pytest.raises(etree.XMLSyntaxError):
        etree.fromstring(broken)
    with pytest.raises(EOFError):
        gzip.decompress((await ask(site, "/nasty/sitemap/cut-gzip")).body)
    assert b'SYSTEM "file:///etc/passwd"' in (await ask(site, "/nasty/sitemap/entities")).body
    bomb = await ask(site, "/nasty/sitemap/bomb", silence_s=20, most=5_000_000)
    assert bomb.is_whole and bomb.body.startswith(b"\x1f\x8b")


@pytest.mark.parametrize(
    ("variant", "allowed", "disallowed"),
    [
        ("rules", "/products/10", "/products/12"),
        ("wildcards", "/category/kitchen?page=2", "/category/toys?page=2"),
        ("wildcards", "/files/manual-4.pdf?x", "/files/manual-4.pdf"),
        ("agents", "/products/1", "/help"),
        ("agents", "/", "/about"),
        ("odd", "/products/1", "/help"),
        ("huge", "/products/5", "/products/1"),
    ],
)
async def test_rules_of_robots(site: RunningSite, variant: str, allowed: str, disallowed: str) -> None:
    body = (await ask(site, f"/nasty/robots/{variant}", most=6_000_000, silence_s=5)).body
    rules = Protego.parse(body.decode("utf-8-sig"))
    assert rules.can_fetch(f"{site.url}{allowed}", "crawlfleet")
    assert not rules.can_fetch(f"{site.url}{disallowed}", "crawlfleet")
