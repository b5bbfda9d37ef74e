"""The parts of the test site that decide: prices, rates, the log's bounds, and changes by version."""

from __future__ import annotations

import re
from itertools import product
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.demo_shop.http_messages import Request
from testkit.site.connection import Exchange
from testkit.site.nasty.behaviour_table import BEHAVIOURS, FAMILIES, find_behaviour
from testkit.site.price_notations import NOTATIONS, amount, shown
from testkit.site.request_log import RequestLog, most_in
from testkit.site.site import Site, SiteOptions
from testkit.site.versioned_catalogue import VersionedCatalogue, new_in_each
from testkit.site.visitor_memory import KEYS_KEPT, Memory, RateGate


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
    log = RequestLog(max_requests=3)
    for number in range(5):
        headers = {"cookie": "x" * 10_000, "user-agent": "a"}
        log.note(Request("GET", f"/{number}", headers, client=("127.0.0.1", 9), is_old=False))
    assert (log.total, log.paths()) == (5, ["/2", "/3", "/4"])
    assert len(log.requests[0].headers["cookie"]) == 500


def test_memory_is_bounded() -> None:
    memory = Memory()
    for number in range(KEYS_KEPT + 10):
        memory.count(str(number))
    assert memory.count("0") == 1


@settings(max_examples=30)
@given(st.integers(0, 120), st.integers(1, 5), st.integers(1, 3))
def test_versions_change_a_part_and_keep_the_rest(count: int, version: int, seed: int) -> None:
    before = {it.number: it for it in VersionedCatalogue(count, seed, version, is_plain=False).products}
    later = VersionedCatalogue(count, seed, version + 1, is_plain=False)
    after = {it.number: it for it in later.products}
    made = count + (version - 1) * new_in_each(count)
    assert after.keys() - before.keys() == set(range(made + 1, made + 1 + new_in_each(count)))
    assert all(later.is_gone(number) for number in before.keys() - after.keys())
    for number in before.keys() & after.keys():
        # What says that it changed did, and nothing else.
        assert (after[number].since == version + 1) == (after[number] != before[number])


def test_a_shop_begins_like_a_larger_one() -> None:
    small, large = VersionedCatalogue(50, is_plain=False), VersionedCatalogue(500, is_plain=False)
    assert small.products == large.products[:50]


def test_behaviours_are_found_by_their_longest_path() -> None:
    assert {it.path for it in BEHAVIOURS} == {found.path for it in BEHAVIOURS if (found := find_behaviour(it.path))}
    deep = find_behaviour("/nasty/trap/deeper/news/shop/news")
    assert deep is not None and deep.path == "/nasty/trap/deeper"
    for missing in ("/", "/nasty", "/nasty/trap", "/nasty/nope/x", "/products/nasty/trap/deeper"):
        assert find_behaviour(missing) is None
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
        answer = site.answer(Exchange(Mock(served=1), request, site.memory))
        assert isinstance(answer, bytes), target
        assert re.match(rb"HTTP/1\.1 [234]\d\d ", answer), target
