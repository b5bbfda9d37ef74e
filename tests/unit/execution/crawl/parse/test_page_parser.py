"""The page as such: where it leads, what it says of itself, what people read on it."""

from __future__ import annotations

from typing import Any

import pytest

from crawlfleet.execution.crawl.parse.extract.dom import Dom, LexborDom, XPathDom
from crawlfleet.execution.crawl.parse.extract.metadata import page_language, page_metadata
from crawlfleet.execution.crawl.parse.extract.page_links import PageLinks, extract_page_links
from crawlfleet.execution.crawl.parse.extract.structured import structured_data
from tests.unit.execution.crawl.parse.extract.extract_kit import URL, facts

TREES = pytest.mark.parametrize("parse", [LexborDom, XPathDom])

HEAD = """<!doctype html><html lang="en-GB"><head><title>The  teapot</title><base href="/shop/">
<link rel="canonical" href="tea"><link rel="stylesheet" href="x.css"><link rel="Next" href="?page=2">
<meta http-equiv="Refresh" content="5; URL='/soon'"><meta name="robots" content="noindex, NoFollow">
<meta name="description" content=" A fine  pot "><meta property="og:site_name" content="Pots">
<meta property="og:image" content="/1.jpg"><meta property="og:image" content="/2.jpg">
<meta property="article:published_time" content="2024-05-03T10:00:00Z"><meta name="author" content="Ann">
</head>"""
BODY = """<body><a href="1">one</a><a href="1" rel="nofollow">one again</a><a href="2" rel="ugc NOFOLLOW">two</a>
<a href="#here">here</a><a href>none</a><area href="3"><a name="x">no</a><iframe src="/frame"></iframe></body>"""
THINGS = """<script type="application/ld+json"><!-- {"@graph": [{"@type": "Product", "name": "Pot"}, 5]} --></script>
<script type="application/ld+json">{broken</script>
<script type="application/ld+json">[{"@type": "Shop", "note": "a\tb"}]</script>
<div itemscope itemtype="https://schema.org/Product"><b itemprop="name alternateName">Pot</b>
 <img itemprop="image" src="a.jpg"><img itemprop="image" src="b.jpg"><meta itemprop="sku" content="77">
 <div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><b itemprop="price" content="5.00">5 euros</b>
  <time itemprop="until" datetime="2024-05-03">May</time><a itemprop="url" href="/buy">buy</a></div></div>
<p itemprop="stray">nobody's</p>"""


@TREES
def test_links_in_one_pass(parse: type[Dom]) -> None:
    got = extract_page_links(parse(HEAD + BODY))  # type: ignore[call-arg]
    assert got == PageLinks(
        hrefs=["1", "2", "3"],
        nofollow=frozenset({"2"}),
        frames=["/frame"],
        base="/shop/",
        refresh="/soon",
        canonical="tea",
        next="?page=2",
        robots=frozenset({"noindex", "nofollow"}),
    )
    assert not got.may_follow


@TREES
def test_links_of_other_pages(parse: type[Dom]) -> None:
    def links(html: str) -> PageLinks:
        return extract_page_links(parse(html))  # type: ignore[call-arg]

    assert links("") == PageLinks(hrefs=[])
    assert links('<a rel="next" href="2">').next == "2"
    assert links('<frameset><frame src="a"><frame src="b"></frameset>').frames == ["a", "b"]
    assert links('<a href="1" rel="nofollow"></a><a href="1"></a>').nofollow == frozenset()
    for content in ("5", "0;/x", "0; uri=/x", "0; url="):
        assert links(f'<meta http-equiv="refresh" content="{content}">').refresh is None


@TREES
def test_structured_data(parse: type[Dom]) -> None:
    got = structured_data(parse(HEAD + THINGS), URL)  # type: ignore[call-arg]
    assert got["json_ld"] == [{"@type": "Product", "name": "Pot"}, {"@type": "Shop", "note": "a\tb"}]
    assert got["microdata"] == [
        {
            "@context": "https://schema.org",
            "@type": "Product",
            "name": "Pot",
            "alternateName": "Pot",
            "image": [f"{URL}a.jpg", f"{URL}b.jpg"],
            "sku": "77",
            "offers": {
                "@context": "https://schema.org",
                "@type": "Offer",
                "price": "5.00",
                "until": "2024-05-03",
                "url": "http://shop.test/buy",
            },
        }
    ]
    assert got["open_graph"]["og:image"] == ["/1.jpg", "/2.jpg"]


@TREES
def test_metadata(parse: type[Dom]) -> None:
    tree = parse(HEAD + BODY)  # type: ignore[call-arg]
    assert page_language(tree) == "en-GB"
    assert page_metadata(tree, extract_page_links(tree), "http://shop.test/shop/") == {
        "description": "A fine pot",
        "author": "Ann",
        "published": "2024-05-03T10:00:00+00:00",
        "site": "Pots",
        "image": "/1.jpg",
        "canonical": "http://shop.test/shop/tea",
        "robots": ["nofollow", "noindex"],
    }
    assert page_language(parse('<meta property="og:locale" content="de_AT">')) == "de-AT"  # type: ignore[call-arg]
    assert page_language(parse("x")) is None  # type: ignore[call-arg]


ARTICLE = (
    "<nav><ul>" + "".join(f'<li><a href="/{n}">Menu {n}</a></li>' for n in range(20)) + "</ul></nav>"
    "<article><h1>Tea</h1>"
    + "<h2>Water</h2><p>Water for tea is boiled <b>once</b>, and poured at once, because it loses its air. See "
    '<a href="/air">about air</a>.</p>' * 3 + "<ul><li>green: 80 degrees</li><li>black: 95 degrees</li></ul></article>"
    "<footer>All rights reserved</footer>"
)


def test_a_page_as_text_and_markdown() -> None:
    page = facts(ARTICLE, {"page": ["text", "markdown", "links", "metadata", "structured"]}, is_isolated=True).page
    assert "## Water" in page["markdown"]
    assert "- green: 80 degrees" in page["markdown"]
    assert "Water for tea is boiled once" in page["text"]
    assert "Menu 3" not in page["text"] + page["markdown"]
    assert page["links"][:2] == ["http://shop.test/0", "http://shop.test/1"]
    assert page["structured"] == {"json_ld": [], "microdata": [], "open_graph": {}}
    assert facts("<p>Hi", {"page": ["text"]}).page["text"] == "Hi"


@pytest.mark.parametrize("html", ["", "\0", "<", "<!---->", "plain", "<html></html>", "<svg><title>x</title></svg>"])
def test_pages_of_nothing(html: str) -> None:
    asked: dict[str, Any] = {
        "selectors": {"a": "b", "c": "d"},
        "extract": {"x": {"container": "li", "fields": {"y": "b"}}, "j": {"json": "@", "fields": {"y": "z"}}},
        "page": ["text", "metadata", "structured", "links"],
    }
    for more in ({}, {"d": {"fields": {"e": "//f"}}}):
        got = facts(html, asked | {"extract": asked["extract"] | more})
        assert (got.data["x"], got.data["j"], got.records) == ([], [], [])
