"""Selectors: which parse, what they find, and which of them is the container."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.parse.extract.dom import DEEP_LEVELS, TEXT_CHARS
from crawlfleet.execution.crawl.parse.extract.extraction_plan import BadPlan, compile_plan
from crawlfleet.execution.crawl.parse.extract.page_links import PageLinks
from crawlfleet.execution.crawl.parse.extract.selectors import is_xpath
from crawlfleet.execution.crawl.parse.page_parser import NeedsParserProcess, PageFacts, ParseRequest, parse_page

URL = "http://shop.test/list"
CSS = {"product": "div.product", "title": "h2.title", "price": "span.price"}
XPATH = {"product": "//div[@class='product']", "title": "//h2[@class='title']", "price": ".//span[@class='price']"}
MIXED = {"product": "div.product", "title": "//h2[@class='title']/text()", "price": "span.price"}
FORMS = pytest.mark.parametrize("selectors", [CSS, XPATH, MIXED], ids=["css", "xpath", "mixed"])


def facts(html: str, selectors: dict[str, str] | None = None, **more: Any) -> PageFacts:
    plan = compile_plan({"selectors": selectors} if selectors else {})
    return parse_page(
        ParseRequest(html, URL, plan.source, more.pop("container", None), more.pop("follow", True), **more)
    )


def card(title: str | None = None, price: str | None = None, href: str | None = None) -> str:
    return (
        '<div class="product">'
        + (f'<h2 class="title">{title}</h2>' if title else "")
        + (f'<p><span class="price">{price}</span></p>' if price else "")
        + (f'<a href="{href}">more</a>' if href else "")
        + "</div>"
    )


@FORMS
def test_the_form_of_the_source_document(selectors: dict[str, str]) -> None:
    html = card("Product 1", "$19.99", "/products/1") + card("Product  2\n", "$29.99", "/products/2")
    got = facts(html, selectors)
    assert got.container == "product"
    assert got.records == [
        {"title": "Product 1", "price": "$19.99", "url": "/products/1"},
        {"title": "Product 2", "price": "$29.99", "url": "/products/2"},
    ]
    assert list(got.records[0]) == ["title", "price", "url"]


@FORMS
def test_what_is_missing_is_none_and_what_is_outside_is_left_out(selectors: dict[str, str]) -> None:
    html = '<h2 class="title">Shop</h2>' + card("A") + card(None, "$1") + card()
    assert facts(html, selectors).records == [
        {"title": "A", "price": None, "url": None},
        {"title": None, "price": "$1", "url": None},
        {"title": None, "price": None, "url": None},
    ]


@FORMS
def test_without_a_container_every_selector_is_a_list(selectors: dict[str, str]) -> None:
    html = '<h2 class="title">A</h2><h2 class="title">B</h2><span class="price">$1</span>'
    got = facts(html, selectors)
    assert got.container is None
    assert got.lists == {"product": [], "title": ["A", "B"], "price": ["$1"]}


@FORMS
def test_the_order_in_which_selectors_are_named_does_not_matter(selectors: dict[str, str]) -> None:
    turned = dict(reversed(selectors.items()))
    assert facts(card("A", "$1", "/1"), turned).container == "product"


def test_the_container_of_an_earlier_page_stays() -> None:
    assert facts(card("A"), CSS, container="price").records == []
    assert facts('<h2 class="title">A</h2>', CSS, container="product").lists == {}


def test_a_nested_container_keeps_its_own_fields() -> None:
    html = f'<div class="product"><h2 class="title">Set</h2>{card("Part", "$1")}</div>'
    titles = [record["title"] for record in facts(html, CSS).records]
    assert titles == ["Set", "Part"]


def test_a_field_called_url_is_the_users() -> None:
    html = card("A", "$1", "/first") + card("B")
    got = facts(html, {"product": "//div[@class='product']", "url": "//h2/text()"})
    assert [record["url"] for record in got.records] == ["A", "B"]


def test_a_container_that_is_a_link_is_its_own_url() -> None:
    html = '<a class="card" href="/1"><b>A</b></a>'
    for selectors in ({"card": "a.card", "name": "b"}, {"card": "//a", "name": "//b"}):
        assert facts(html, selectors).records == [{"name": "A", "url": "/1"}]


def test_xpath_finds_attributes_text_and_values() -> None:
    html = '<div class="product"><a href="/1" title="T">one</a> tail</div>'
    selectors = {"product": "//div", "link": "//a/@href", "tail": "//div/text()", "name": "//a"}
    assert facts(html, selectors).records == [{"link": "/1", "tail": "tail", "name": "one", "url": "/1"}]
    assert facts(html, {"links": "(//a)[1]/@title"}).lists == {"links": ["T"]}


def test_text_is_bounded_and_tidy() -> None:
    assert facts("<b> a\n\t b </b>", {"b": "b"}).lists == {"b": ["a b"]}
    (long,) = facts(f"<b>{'x' * 10 * TEXT_CHARS}</b>", {"b": "b"}).lists["b"]
    assert len(long) == TEXT_CHARS


def test_links_title_and_base() -> None:
    html = '<title> The  page </title><base href="/deep/"><a href="x">1</a><a href="x#y">2</a><area href="//o.test/">'
    for selectors in ({}, {"b": "//b"}):
        got = facts(html, selectors)
        # Only the item of a page has it.
        assert got.title == (None if selectors else "The page")
        assert (got.links.hrefs, got.base) == (["x", "x#y", "//o.test/"], "http://shop.test/deep/")
    assert facts(html, follow=False).links == PageLinks()


@pytest.mark.parametrize("html", ["", "\0", "<", "<!---->", "plain text", "<html></html>", "<?xml version='1.0'?><a/>"])
@FORMS
def test_pages_of_nothing(html: str, selectors: dict[str, str]) -> None:
    got = facts(html, selectors)
    assert (got.container, got.records, got.links) == (None, [], PageLinks())


@pytest.mark.parametrize(
    "text", ["div[", "h2 >", "a::attr(href)", "", " ", "//div[", "//a/unknown()", "//x:y", "(//a", "./", "h2:nope"]
)
def test_a_selector_that_does_not_parse_is_named(text: str) -> None:
    with pytest.raises(BadPlan) as told:
        compile_plan({"selectors": {"good": "div", "bad": text}})
    assert [problem.path for problem in told.value.problems] == ["selectors.bad"]
    assert str(told.value).startswith("selectors.bad: ")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("div.product", True),
        ("ul > li > a.name", True),
        ("main ul a", True),
        ("a[title='a b c d e']", True),
        ("main ul li a", False),
        ("li:nth-child(2n)", False),
        ("h2 ~ p", False),
        ("//div[@class='a // b']/a", True),
        ("//div[contains(@class, 'x')]/h2", True),
        ("//div//a", False),
        ("//h2[count(//h2) > 1]", False),
        ("//a/ancestor::div", False),
    ],
)
def test_which_selectors_are_plain(text: str, plain: bool) -> None:
    assert compile_plan({"selectors": {"it": text}}).is_plain is plain


def test_what_looks_like_xpath() -> None:
    assert all(is_xpath(text) for text in ("//a", "/html", ".//a", "(//a)[1]"))
    assert not any(is_xpath(text) for text in (".a", "div", "*", "#id"))


def test_a_deep_page_is_left_to_the_process_apart() -> None:
    html = "<div>" * (DEEP_LEVELS + 1) + "<b>x</b>"
    with pytest.raises(NeedsParserProcess):
        facts(html, {"it": "div b"})
    assert facts(html, {"it": "b"}).lists == {"it": ["x"]}
    assert facts(html, {"it": "div b"}, is_isolated=True).lists == {"it": ["x"]}


# Trees of boxes: what the container is can be said without any parser.

Box = tuple[str, list[Any]]
NAMES = ("a", "b", "c")
BOXES: st.SearchStrategy[Box] = st.recursive(
    st.tuples(st.sampled_from(NAMES), st.just([])),
    lambda inner: st.tuples(st.sampled_from((*NAMES, "x")), st.lists(inner, max_size=3)),
    max_leaves=12,
)


def html_of(box: Box) -> str:
    return f'<div class="{box[0]}">{"".join(map(html_of, box[1]))}</div>'


def pairs(box: Box, above: tuple[str, ...] = ()) -> set[tuple[str, str]]:
    """(outer, inner) for every box and each one around it, and the box alone as (inner, inner)."""
    own = {(outer, box[0]) for outer in above} | {("", box[0])}
    return own.union(*(pairs(inner, (*above, box[0])) for inner in box[1]))


@given(st.lists(BOXES, min_size=1, max_size=4))
def test_the_container_is_the_first_that_contains_all_others(boxes: list[Box]) -> None:
    found = set().union(*(pairs(box) for box in boxes))
    present = [name for name in NAMES if ("", name) in found]
    holding = [name for name in present if all((name, other) in found for other in present if other != name)]
    expected = holding[0] if len(present) > 1 and holding else None
    html = "".join(map(html_of, boxes))
    for selectors in ({name: f"div.{name}" for name in NAMES}, {name: f"//div[@class='{name}']" for name in NAMES}):
        got = facts(html, selectors)
        assert got.container == expected
        if expected is not None:
            assert len(got.records) == html.count(f'class="{expected}"')
