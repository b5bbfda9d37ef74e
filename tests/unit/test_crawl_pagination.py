"""Where a list goes on, and where it ends."""

from __future__ import annotations

from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from crawlfleet.execution.crawl.normalise import Normaliser
from crawlfleet.execution.crawl.pagination import MOST_PAGES, Pagination
from crawlfleet.execution.crawl.patterns import BadRule
from crawlfleet.execution.crawl.second_look import PAGE_CHARS, Look, SecondLook

LIST = "http://shop.test/list"


def after(pagination: Pagination, url: str, html: str) -> list[str]:
    return pagination.after(url, html, LexborHTMLParser(html))


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
    assert len(pagination._steps) == 0


def test_a_template_counts_up_to_its_last_page() -> None:
    pagination = made(template=f"{LIST}?page={{page}}", first=2, last=4)
    url, seen = pagination.first(), []
    while url is not None:
        seen.append(url)
        url = next(iter(after(pagination, url, f"<p>{url}")), None)
    assert seen == [f"{LIST}?page={n}" for n in (2, 3, 4)]


def test_a_template_ends_where_the_same_page_comes_again_or_nothing_is_on_it() -> None:
    pagination = made(template=f"{LIST}/{{page}}")
    assert pagination.first() == f"{LIST}/1"
    assert after(pagination, "http://shop.test/else", "<p>x") == [], "other pages do not count"
    assert after(pagination, f"{LIST}/1", "<p>a") == [f"{LIST}/2"]
    assert after(pagination, f"{LIST}/2", "<p>b") == [f"{LIST}/3"]
    assert after(pagination, f"{LIST}/3", "<p>b") == []
    pagination = made(template=f"{LIST}/{{page}}", **{"while": "div.product"})
    pagination.first()
    assert after(pagination, f"{LIST}/1", '<div class="product">') == [f"{LIST}/2"]
    assert after(pagination, f"{LIST}/2", "<p>nothing found") == []
    endless = made(template=f"{LIST}/{{page}}", first=1)
    assert endless._last == MOST_PAGES


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"selector": "a["}, "pagination.selector"),
        ({"selector": "a:has(b)"}, "pagination.selector"),
        ({"while": "//a"}, "pagination.while"),
        ({"template": "http://shop.test/2"}, "pagination.template"),
        ({"template": "http://%zz/{page}"}, "pagination.template"),
        ({"template": "http://shop.test/{page}", "first": 5, "last": 4}, "pagination.last"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRule) as told:
        Pagination(options, Normaliser())
    assert told.value.field == field


def look(html: str, *, obeys: bool = True, pagination: Pagination | None = None) -> Look:
    return SecondLook(pagination, Normaliser(), obeys_nofollow=obeys).look(LIST, html)


def test_nofollow_is_of_links_and_of_pages() -> None:
    html = '<a href="/a" rel="nofollow">a</a><a href="/b" rel="ugc NoFollow">b</a><a href="/b">b</a><a href="/c">c</a>'
    assert look(html).nofollow == {"http://shop.test/a"}
    assert look(html).follows
    assert not look('<meta name="ROBOTS" content="noindex, NOFOLLOW">').follows
    assert look(html, obeys=False) == Look()


def test_a_second_look_is_taken_only_where_there_is_something_to_see() -> None:
    plain, asked = b"<a href=/a>", b'<a href=/a rel="NoFollow">'
    assert not SecondLook(None, Normaliser(), obeys_nofollow=False).is_due(asked)
    assert [SecondLook(None, Normaliser(), obeys_nofollow=True).is_due(body) for body in (plain, asked)] == [
        False,
        True,
    ]
    assert SecondLook(made(rel_next=True), Normaliser(), obeys_nofollow=False).is_due(plain)


def test_hostile_pages_are_not_looked_at() -> None:
    next_link = '<a rel="next" href="?p=2">'
    assert look(next_link, pagination=made(rel_next=True)).next == (f"{LIST}?p=2",)
    assert look(next_link + "x" * PAGE_CHARS, pagination=made(rel_next=True)).next == ()
    assert look("<div>" * 2_000 + next_link, pagination=made(selector="div div a")).next == ()
