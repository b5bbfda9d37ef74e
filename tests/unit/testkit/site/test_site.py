"""The parts of the shop that decide: prices, rates, the log's bounds, requests and changes by version."""

from __future__ import annotations

import re
from itertools import product
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.shop.catalogue import Catalogue, new_in_each
from crawlfleet.shop.connection import Talk
from crawlfleet.shop.http import Malformed, Request, parse, reply
from crawlfleet.shop.log import RequestLog, most_in
from crawlfleet.shop.memory import KEYS_KEPT, Memory, RateGate
from crawlfleet.shop.nasty.table import BEHAVIOURS, FAMILIES, behaviour_of
from crawlfleet.shop.prices import NOTATIONS, amount, shown
from crawlfleet.shop.site import Site, SiteOptions


@given(st.integers(0, 10_000_000))
def test_every_notation_shows_every_digit(cents: int) -> None:
    for notation in NOTATIONS:
        digits = re.sub(r"\D", "", shown(cents, notation))
        wanted = re.sub(r"\D", "", amount(cents, notation))
        # Whole euros are shown as "12,-" in one of them.
        assert digits in {wanted, wanted.removesuffix("00")}


def test_notations_of_thousands() -> None:
    texts = [shown(123_456_700, notation) for notation in NOTATIONS]
    assert "1.234.567,00 €" in texts
    assert "₹12,34,567.00" in texts
    assert "CHF 1’234’567.00" in texts
    assert "¥1,234,567" in texts


@given(st.lists(st.floats(0, 10), max_size=80), st.integers(1, 6))
def test_a_gate_lets_in_no_more_than_it_says_in_any_second(steps: list[float], most: int) -> None:
    instants = sorted(steps)
    now = iter(instants)
    gate = RateGate(most, clock=lambda: next(now))
    let_in = [at for at in instants if gate.is_open()]
    assert all(sum(at <= other < at + 1.0 for other in let_in) <= most for at in let_in)
    # And nobody is turned away for nothing.
    assert len(let_in) >= min(len(instants), most)


@given(st.lists(st.floats(0, 20), max_size=60))
def test_most_in_a_second_is_the_most(steps: list[float]) -> None:
    instants = sorted(steps)
    assert most_in(instants) == max((sum(at <= other <= at + 1.0 for other in instants) for at in instants), default=0)


def test_the_log_is_bounded() -> None:
    log = RequestLog(kept=3)
    for number in range(5):
        headers = {"cookie": "x" * 10_000, "user-agent": "a"}
        log.note(Request("GET", f"/{number}", headers, client=("127.0.0.1", 9), is_old=False))
    assert (log.total, log.paths()) == (5, ["/2", "/3", "/4"])
    assert len(log.asked[0].headers["cookie"]) == 500


def test_memory_is_bounded() -> None:
    memory = Memory()
    for number in range(KEYS_KEPT + 10):
        memory.count(str(number))
    assert memory.count("0") == 1


def test_requests_are_parsed_or_refused() -> None:
    head = b"GET http://a.test/x?y=1&z= HTTP/1.0\r\nHOST: robots-404.a.test:80\r\nCookie: a=1; b; c=2"
    request = parse(head, ("::1", 5))
    assert (request.path, request.parameters) == ("/x", {"y": "1", "z": ""})
    assert (request.label, request.cookies, request.is_kept_alive) == ("robots-404", {"a": "1", "c": "2"}, False)
    for bad in (b"", b"GET /", b"GET / HTTP/2", b"\x16\x03\x01", b"GET  / HTTP/1.1"):
        with pytest.raises(Malformed):
            parse(bad, ("", 0))
    assert reply(200, "é").endswith(b"Content-Length: 2\r\n\r\n\xc3\xa9")


@settings(max_examples=30)
@given(st.integers(0, 120), st.integers(1, 5), st.integers(1, 3))
def test_versions_change_a_part_and_keep_the_rest(count: int, version: int, seed: int) -> None:
    before = {it.number: it for it in Catalogue(count, seed, version, is_plain=False).products}
    later = Catalogue(count, seed, version + 1, is_plain=False)
    after = {it.number: it for it in later.products}
    made = count + (version - 1) * new_in_each(count)
    assert after.keys() - before.keys() == set(range(made + 1, made + 1 + new_in_each(count)))
    assert all(later.is_gone(number) for number in before.keys() - after.keys())
    for number in before.keys() & after.keys():
        # What says that it changed did, and nothing else.
        assert (after[number].since == version + 1) == (after[number] != before[number])


def test_a_shop_begins_like_a_larger_one() -> None:
    small, large = Catalogue(50, is_plain=False), Catalogue(500, is_plain=False)
    assert small.products == large.products[:50]


def test_behaviours_are_found_by_their_longest_path() -> None:
    assert {it.path for it in BEHAVIOURS} == {found.path for it in BEHAVIOURS if (found := behaviour_of(it.path))}
    deep = behaviour_of("/nasty/trap/deeper/news/shop/news")
    assert deep is not None and deep.path == "/nasty/trap/deeper"
    for missing in ("/", "/nasty", "/nasty/trap", "/nasty/nope/x", "/products/nasty/trap/deeper"):
        assert behaviour_of(missing) is None
    assert all(it.does and it.good for it in BEHAVIOURS)
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


_FRONTS = (
    "/",
    "/products",
    "/p",
    "/category",
    "/category/kitchen",
    "/search",
    "/api",
    "/api/products",
    "/images",
    "/files",
    "/feeds",
    "/sitemaps",
    "/robots.txt",
    "/-/log",
    "/-/set",
    "/-/pages",
    "/-/changes",
    "/nasty",
    "/nasty/trap/calendar",
    "/nasty/trap/counter",
    "/nasty/trap/deeper",
    "/nasty/trap/facets",
    "/nasty/redirect/chain",
    "/nasty/redirect/endless",
    "/nasty/refuse/ban",
    "/nasty/sitemap/endless",
    "/nasty/session/login",
)
# A superscript two is a digit to Python, and one byte of a request line.
_TAILS = (
    "",
    "0",
    "1",
    "\xb2",
    "9" * 30,
    "9999-12-31",
    "0001-01-01",
    "reviews",
    "..",
    "%zz",
    "\x00",
    "products-1.xml.gz",
)
_QUERIES = (
    "",
    "?",
    "?page=\xb2",
    "?page=0",
    f"?page={'9' * 40}",
    "?n=\xb2",
    f"?n={'9' * 17}",
    "?q=%ff&page=2",
    "?sort=x",
    "?&&==&",
    "?version=\xb2",
    "?since=nan",
    "?since=x",
    "?PHPSESSID=%00",
    "?before=1&after=99",
)


@pytest.fixture(scope="module")
def sites() -> list[Site]:
    return [Site(SiteOptions(30)), Site(SiteOptions(30, is_plain=True))]


@pytest.mark.parametrize("front", _FRONTS)
def test_no_request_breaks_the_site(sites: list[Site], front: str) -> None:
    for site, tail, query in product(sites, _TAILS, _QUERIES):
        target = f"{front}/{tail}{query}" if tail else f"{front}{query}"
        site.log.clear()
        request = Request("GET", target, {"host": "a\xe9"}, client=("", 0), is_old=False)
        answer = site.answer(Talk(Mock(served=1), request, site.memory))
        assert isinstance(answer, bytes), target
        assert re.match(rb"HTTP/1\.1 [234]\d\d ", answer), target
