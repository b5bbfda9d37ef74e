"""Sitemaps as sites have them: right, wrong, packed, endless and hostile."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.frontier import sitemaps
from crawlfleet.execution.crawl.frontier.sitemaps import Sitemap, SitemapEntry, parse_instant

HERE = "http://shop.test/sitemap.xml"
HEAD = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">'


def read(body: bytes | str, **bounds: int) -> tuple[list[SitemapEntry], Sitemap]:
    sitemap = Sitemap(body.encode() if isinstance(body, str) else body, HERE, **bounds)
    return [entry for batch in sitemap.parse_batches() for entry in batch], sitemap


def urls(body: bytes | str, **bounds: int) -> tuple[list[str], str | None]:
    entries, sitemap = read(body, **bounds)
    return [entry.url.removeprefix("http://shop.test") for entry in entries], sitemap.problem


def listing(*paths: str) -> str:
    return HEAD + "".join(f"<url><loc>http://shop.test{path}</loc></url>" for path in paths) + "</urlset>"


def test_everything_an_entry_says() -> None:
    entries, sitemap = read(
        f"""<?xml version="1.0" encoding="UTF-8"?>{HEAD}
        <url><loc> http://Shop.test/a?x=1&amp;y=2#top </loc><lastmod>2026-11-16T10:00:00+01:00</lastmod>
          <xhtml:link rel="alternate" hreflang="de" href="/de/a"/>
          <xhtml:link rel="alternate" hreflang="x" href="mailto:no"/>
          <image:image xmlns:image="urn:i"><image:loc>http://shop.test/a.jpg</image:loc></image:image></url>
        <url><loc>/b</loc><priority>0.5</priority></url><url></url><url><loc>nonsense</loc></url></urlset>"""
    )
    at = datetime(2026, 11, 16, 9, tzinfo=UTC)
    assert entries == [
        SitemapEntry("http://shop.test/a?x=1&y=2", at, (("de", "http://shop.test/de/a"),)),
        SitemapEntry("http://shop.test/b"),
    ]
    assert (sitemap.problem, sitemap.bad_url_count, sitemap.entry_count) == (None, 1, 2)


def test_an_index_lists_sitemaps() -> None:
    entries, _ = read("<sitemapindex><sitemap><loc>http://shop.test/1.xml.gz</loc></sitemap></sitemapindex>")
    assert entries == [SitemapEntry("http://shop.test/1.xml.gz", is_sitemap=True)]


def test_prefixes_spaces_and_cdata() -> None:
    body = '<s:urlset xmlns:s="urn:s"><s:url><s:loc> <![CDATA[http://shop.test/a&b]]> </s:loc></s:url></s:urlset>'
    assert urls(body) == (["/a&b"], None)


def test_lines() -> None:
    body = b"\xef\xbb\xbfhttp://shop.test/a\r\nhttp://shop.test/b\n\nnonsense\nhttp://shop.test/c"
    assert urls(body) == (["/a", "/b", "/c"], None)
    assert urls(gzip.compress(body)) == (["/a", "/b", "/c"], None)
    assert urls("http://shop.test/a\n" + "x" * 1_000_000 + "\nhttp://shop.test/b\n") == (["/a", "/b"], None)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_encodings(encoding: str) -> None:
    body = f'<?xml version="1.0" encoding="{encoding}"?>{listing("/é", "/b")}'.encode(encoding)
    assert urls(body) == (["/%C3%A9", "/b"], None)
    assert urls(gzip.compress(body)) == (["/%C3%A9", "/b"], None)


@pytest.mark.parametrize(
    ("body", "got", "problem"),
    [
        (listing("/a?x=1&y=2", "/b&nbsp;c", "/c&"), ["/a?x=1&y=2", "/b&nbsp;c", "/c&"], None),
        (
            HEAD + "<url><loc><![CDATA[http://shop.test/a?x=1&y=2&amp=3]]></loc></url></urlset>",
            ["/a?x=1&y=2&amp=3"],
            None,
        ),
        (listing("/a", "/b")[:-20], ["/a"], "broken"),
        (listing("/a").replace("</urlset>", "</other>") + listing("/b"), ["/a"], "mismatched tag"),
        ("<html><body>no<br>sitemap</html>", [], "broken"),
        ("", [], None),
        (b"\x1f\x8bnot gzip", [], "cannot be unpacked"),
        (b"\0\1\2\3" * 100, [], None),
        (listing("/a").replace("<urlset", '<!DOCTYPE urlset SYSTEM "http://evil.test/x.dtd"><urlset'), ["/a"], None),
    ],
)
def test_what_is_broken_gives_what_was_read(body: bytes | str, got: list[str], problem: str | None) -> None:
    found, told = urls(body)
    assert found == got
    assert (problem or "") in (told or "")
    assert (problem is None) == (told is None)


def test_entities_are_not_expanded() -> None:
    laughs = '<!ENTITY a "http://shop.test/aaaaaaaaaaaaaaaa">' + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    began = time.process_time()
    for declared in (laughs, '<!ENTITY i SYSTEM "file:///etc/passwd">'):
        body = f"<!DOCTYPE urlset [{declared}]>{HEAD}<url><loc>&i;</loc></url></urlset>"
        assert urls(body) == ([], "it declares entities, which are not expanded")
    assert time.process_time() - began < 1


def test_bounds() -> None:
    many = listing(*(f"/{n}" for n in range(20)))
    assert urls(many, max_entries=5) == (
        ["/0", "/1", "/2", "/3", "/4"],
        "more than 5 entries: the others are left out",
    )
    found, problem = urls(listing(*(f"/{n}" for n in range(5_000))), max_bytes=100_000)
    assert 0 < len(found) < 5_000
    assert problem == "larger than 100,000 bytes: the rest is left out"
    assert urls(HEAD + "<a>" * 10_000)[1] == "nested more than 50 levels deep"


def test_a_bomb_costs_neither_time_nor_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "MAX_ELEMENTS", 20_000)
    bombs = {
        "larger than": gzip.compress(HEAD.encode() + b" " * (60 << 20)),
        "elements": HEAD.encode() + b"<x/>" * 100_000,
    }
    tracemalloc.start()
    for problem, bomb in bombs.items():
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        found, told = urls(bomb)
        assert found == []
        assert problem in str(told)
        assert tracemalloc.get_traced_memory()[1] - before < 2 << 20
    tracemalloc.stop()


def test_a_long_file_is_read_in_flat_memory() -> None:
    body = listing(*(f"/product/{n}" for n in range(10_000))).encode()
    tracemalloc.start()
    sitemap, count = Sitemap(body, HERE), 0
    for batch in sitemap.parse_batches():
        count += len(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (count, sitemap.problem) == (10_000, None)
    assert peak < 1 << 20


@given(st.lists(st.from_regex(r"/[a-z0-9&;#?=]{0,12}", fullmatch=True), max_size=20), st.integers(1, 40))
def test_steps_of_any_size_read_the_same(paths: list[str], step: int) -> None:
    body = listing(*paths)
    whole = urls(body)
    old, sitemaps.STEP_BYTES = sitemaps.STEP_BYTES, step
    try:
        assert urls(body) == whole
        assert urls(gzip.compress(body.encode())) == whole
        lines = "\r\n".join(f"http://shop.test{path}" for path in paths)
        assert urls(lines)[0] == [entry.url.removeprefix("http://shop.test") for entry in read(lines)[0]]
    finally:
        sitemaps.STEP_BYTES = old
    assert len(whole[0]) == len(paths)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(body: bytes) -> None:
    for form in (body, HEAD.encode() + b"<url><loc>" + body, gzip.compress(body), b"\x1f\x8b" + body):
        read(form)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-11", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-16", datetime(2026, 11, 16, tzinfo=UTC)),
        ("2026-11-16T10:00:00Z", datetime(2026, 11, 16, 10, tzinfo=UTC)),
        ("2026-11-16T10:00+02:00", datetime(2026, 11, 16, 8, tzinfo=UTC)),
        ("0001-01-01T00:00:00+10:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates(text: str, at: datetime | None) -> None:
    assert parse_instant(text) == at
