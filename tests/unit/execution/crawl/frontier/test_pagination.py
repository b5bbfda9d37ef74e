"""Where a list goes on, and where it ends."""

from __future__ import annotations

from typing import Any

import pytest

from crawlfleet.execution.crawl.frontier.normalise import Normaliser
from crawlfleet.execution.crawl.frontier.pagination import MAX_PAGES, Pagination
from crawlfleet.execution.crawl.frontier.patterns import BadRule
from crawlfleet.execution.crawl.parse.extract.extraction_plan import compile_plan
from crawlfleet.execution.crawl.parse.page_parser import NeedsParserProcess, ParseRequest, parse_page

LIST = "http://shop.test/list"


def after(
    pagination: Pagination, url: str, html: str, selectors: dict[str, str] | None = None, *, is_isolated: bool = False
) -> list[str]:
    plan = compile_plan({"selectors": selectors} if selectors else {})
    job = ParseRequest(html, url, plan.source, None, True, is_isolated, marks=pagination.marks)
    return pagination.next_pages(url, parse_page(job), html.encode())


def made(**options: Any) -> Pagination:
    return Pagination(options, Normaliser())


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<a rel="next" href="?page=2">', [f"{LIST}?page=2"]),
        ('<link rel="next" href="/list?page=2">', [f"{LIST}?page=2"]),
        ('<a rel="nofollow next" href="?page=2&utm_source=x">', [f"{LIST}?page=2"]),
        ('<base href="/other/"><a rel=next href="2">', ["http://shop.test/other/2"]),
        ('<a rel="nextish" href="2">', []),
        ('<a rel="next" href="mailto:x">', []),
        ('<a rel="next">', []),
    ],
)
def test_rel_next(html: str, found: list[str]) -> None:
    assert after(made(rel_next=True), LIST, html) == found


def test_a_selector_names_the_next_link() -> None:
    html = '<nav><a class="page" href="?p=1">1</a> <a class="next" href="?p=2">&gt;</a></nav>'
    assert after(made(selector="nav a.next"), LIST, html) == [f"{LIST}?p=2"]
    assert after(made(selector="a.none"), LIST, html) == []


def test_a_list_without_an_end_is_cut() -> None:
    pagination, url, pages = made(rel_next=True, most=5), LIST, 1
    while found := after(pagination, url, f'<a rel="next" href="?p={pages}">'):
        url, pages = found[0], pages + 1
    assert pages == 5
    assert len(pagination._step_by_url) == 0


def test_a_template_counts_up_to_its_last_page() -> None:
    pagination = made(template=f"{LIST}?page={{page}}", first=2, last=4)
    url, seen = pagination.first_page(), []
    while url is not None:
        seen.append(url)
        url = next(iter(after(pagination, url, f"<p>{url}")), None)
    assert seen == [f"{LIST}?page={n}" for n in (2, 3, 4)]


def test_a_template_ends_where_the_same_page_comes_again_or_nothing_is_on_it() -> None:
    pagination = made(template=f"{LIST}/{{page}}")
    assert pagination.first_page() == f"{LIST}/1"
    assert after(pagination, "http://shop.test/else", "<p>x") == [], "other pages do not count"
    assert after(pagination, f"{LIST}/1", "<p>a") == [f"{LIST}/2"]
    assert after(pagination, f"{LIST}/2", "<p>b") == [f"{LIST}/3"]
    assert after(pagination, f"{LIST}/3", "<p>b") == []
    pagination = made(template=f"{LIST}/{{page}}", **{"while": "div.product"})
    pagination.first_page()
    assert after(pagination, f"{LIST}/1", '<div class="product">') == [f"{LIST}/2"]
    assert after(pagination, f"{LIST}/2", "<p>nothing found") == []
    endless = made(template=f"{LIST}/{{page}}", first=1)
    assert endless._last_number == MAX_PAGES


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        ({"selector": "a["}, "pagination.selector", "'[' at position 1 is not closed"),
        ({"selector": "a:has(b)"}, "pagination.selector", "only names, classes, ids and attributes"),
        ({"while": "//a"}, "pagination.while", "no XPath"),
        ({"while": "//a[position()=1]"}, "pagination.while", "no XPath"),
        ({"template": "http://shop.test/2"}, "pagination.template", "has no {page}"),
        ({"template": "http://%zz/{page}"}, "pagination.template", "is no URL of a page"),
        ({"template": "http://shop.test/{page}", "first": 5, "last": 4}, "pagination.last", "before the first"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(BadRule) as told:
        Pagination(options, Normaliser())
    assert told.value.field == field
    assert said in told.value.detail


def test_a_list_goes_on_the_same_where_pages_are_read_by_xpath() -> None:
    html = '<nav><a class="next" href="?p=2">&gt;</a><a rel="next" href="?p=3">&gt;</a></nav><b>x</b>'
    pagination = made(selector="nav > a.next, nav a[title='x']", rel_next=True, **{"while": "b"})
    assert (
        after(pagination, LIST, html, {"b": "//b"})
        == after(pagination, LIST, html)
        == [
            f"{LIST}?p=2",
            f"{LIST}?p=3",
        ]
    )


def test_a_selector_on_a_page_nested_deeply_is_for_a_process_apart() -> None:
    html = "<div>" * 200 + '<a rel="next" href="?p=2">'
    assert after(made(rel_next=True), LIST, html) == [f"{LIST}?p=2"], "no selector is asked for"
    pagination = made(selector="div div a")
    with pytest.raises(NeedsParserProcess):
        after(pagination, LIST, html)
    assert after(pagination, LIST, html, is_isolated=True) == [f"{LIST}?p=2"]
