"""Which spellings are one page, and links that were met before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.frontier.link_cache import ENTRY_BYTES, LinkCache
from crawlfleet.execution.crawl.frontier.normalise import Normaliser
from crawlfleet.execution.crawl.frontier.urls import PAGE_LINKS, URL_CHARS, canonical_url

SHOP = "http://shop.test"
BASES = st.sampled_from(
    [f"{SHOP}/", f"{SHOP}/a/b?c=1", f"{SHOP}/a/c", f"{SHOP}/a/b/?d=/e/f", "https://shop.test/a/b", f"{SHOP}:81/a/b"]
)
PARTS = (
    "..",
    ".",
    "a",
    "b.html",
    "%2e",
    "%41",
    "c:d",
    "x?y=1",
    "?page=2",
    "#top",
    "&utm_source=x",
    "é",
    " ",
    "//",
    "\t",
    "\\",
)
HREFS = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.sampled_from([*PARTS, "/", "/", "http:", "https://", "shop.test", ":81", "=", "'", "^"]), max_size=8
    ).map("".join),
    st.from_regex(r"/?[./?#a-zA-Z0-9%=&:;@!$'()*+,_~|^\\ -]{0,30}", fullmatch=True),
)
TRACKED = st.lists(
    st.sampled_from(
        ["a=1", "b=2", "", "utm_source=x", "gclid", "fbclid=", "page=3", "sid=short", "sid=0123456789abcdef0", "utm=1"]
    ),
    max_size=6,
).map("&".join)


@pytest.mark.parametrize(
    ("url", "same_as"),
    [
        ("/x?", "/x"),
        ("/x?utm_source=a&utm_medium=b", "/x"),
        ("/x?id=1&utm_source=a&page=2", "/x?id=1&page=2"),
        ("/x?gclid=1&id=1", "/x?id=1"),
        ("/x?utm=1&agclid=2&gclid2=3", "/x?utm=1&agclid=2&gclid2=3"),
        ("/x?b=2&a=1", "/x?b=2&a=1"),
        ("/x;jsessionid=0A1B2C?id=1", "/x?id=1"),
        ("/(S(lit3py55t21z5v55vlm25s55))/x.aspx", "/x.aspx"),
        ("/x?PHPSESSID=abc&id=1", "/x?id=1"),
        ("/x?sid=0123456789abcdef0123456789abcdef", "/x"),
        ("/x?sid=17", "/x?sid=17"),
        ("/x?session=introduction-to-python", "/x?session=introduction-to-python"),
        ("/x;v=2?y", "/x;v=2?y"),
    ],
)
def test_what_pages_do_not_differ_by(url: str, same_as: str) -> None:
    assert Normaliser()(f"{SHOP}{url}") == f"{SHOP}{same_as}"


def test_every_option_can_be_turned() -> None:
    url = f"{SHOP}/x;jsessionid=1?ref=mail&b=2&utm_source=a&a=1"
    assert Normaliser(strip_tracking=False, strip_sessions=False)(url) == url
    assert Normaliser(strip=("ref",))(url) == f"{SHOP}/x?b=2&a=1"
    assert Normaliser(strip=("r*", "b"))(url) == f"{SHOP}/x?a=1"
    assert Normaliser(sort_query=True)(url) == f"{SHOP}/x?a=1&b=2&ref=mail"


@given(HREFS, TRACKED, st.booleans())
def test_a_normal_url_is_canonical_and_stays_as_it_is(href: str, query: str, is_sorted: bool) -> None:
    normalise = Normaliser(sort_query=is_sorted)
    for spelled in (href, f"{href}?{query}"):
        url = canonical_url(spelled, f"{SHOP}/a/b?c=1")
        if url is not None:
            normal = normalise(url)
            assert normalise(normal) == normal
            assert canonical_url(normal) == normal


@given(BASES, HREFS)
def test_the_short_way_leads_where_the_long_one_does(base: str, href: str) -> None:
    url = canonical_url(href, base)
    expected = [] if url is None or href[:1] in {"", "#"} else [Normaliser()(url)]
    assert LinkCache().new_urls([href], base, 0) == expected


@given(st.lists(st.tuples(BASES, st.lists(HREFS, max_size=10), st.integers(0, 3)), max_size=12))
def test_nothing_is_missed_for_having_been_met(pages: list[tuple[str, list[str], int]]) -> None:
    memory = LinkCache()
    offered: dict[str, int] = {}
    for base, hrefs, depth in pages:
        fresh = memory.new_urls(hrefs, base, depth)
        assert len(set(fresh)) == len(fresh)
        for url in fresh:
            offered[url] = min(depth, offered.get(url, depth))
        # Each page's links have been offered by now, at its depth or nearer to the start.
        for url in LinkCache().new_urls(hrefs, base, 0):
            assert offered[url] <= depth


def test_met_links_are_passed_over_unless_nearer_to_the_start() -> None:
    memory = LinkCache()
    hrefs = ["/a", "b", "http://other.test/", "mailto:x@y.test", "?p=2"]
    assert memory.new_urls(hrefs, f"{SHOP}/d/1", 2) == [
        f"{SHOP}/a",
        f"{SHOP}/d/b",
        "http://other.test/",
        f"{SHOP}/d/1?p=2",
    ]
    assert memory.new_urls(hrefs, f"{SHOP}/d/2", 2) == [f"{SHOP}/d/2?p=2"]
    assert memory.new_urls(hrefs, f"{SHOP}/e/1", 3) == [f"{SHOP}/e/b", f"{SHOP}/e/1?p=2"]
    assert memory.new_urls(["/a"], f"{SHOP}/d/3", 1) == [f"{SHOP}/a"]
    assert memory.new_urls(["/a"], f"{SHOP}/d/3", 1) == []
    memory.clear()
    assert memory.new_urls(["/a"], f"{SHOP}/d/3", 1) == [f"{SHOP}/a"]


def test_it_is_bounded() -> None:
    memory = LinkCache(max_bytes=100 * ENTRY_BYTES)
    for page in range(50):
        assert len(memory.new_urls([f"/{page}/{n}" for n in range(50)], f"{SHOP}/", 0)) == 50
        assert sum(map(len, memory._origins.values())) <= 150
    assert len(LinkCache().new_urls((f"/{n}" for n in range(2 * PAGE_LINKS)), f"{SHOP}/", 0)) == PAGE_LINKS
    assert LinkCache().new_urls(["/" + "x" * URL_CHARS], f"{SHOP}/", 0) == []
