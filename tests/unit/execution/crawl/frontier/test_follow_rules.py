"""Which links are followed, and where the guards say stop."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.frontier import scope as scopes
from crawlfleet.execution.crawl.frontier.follow_rules import FollowRules
from crawlfleet.execution.crawl.frontier.patterns import BadRule, Patterns
from crawlfleet.execution.crawl.frontier.scope import Scope, registrable_domain
from crawlfleet.execution.crawl.frontier.traps import TrapGuards, TrapLimits

START = "https://www.shop.co.uk/"
SHOP = "https://www.shop.co.uk"


def rules(depth: int = 5, *, same_host: bool | None = None, start: str = START, **follow: Any) -> FollowRules:
    return FollowRules(follow, starts=[start], depth=depth, same_host=same_host)


@pytest.mark.parametrize(
    ("scope", "held"),
    [
        ("host", {"www.shop.co.uk"}),
        ("subdomains", {"www.shop.co.uk", "shop.co.uk", "a.www.shop.co.uk", "blog.shop.co.uk"}),
        ("domain", {"www.shop.co.uk", "shop.co.uk", "a.www.shop.co.uk", "blog.shop.co.uk"}),
        ("any", {"www.shop.co.uk", "shop.co.uk", "a.www.shop.co.uk", "blog.shop.co.uk", "other.co.uk", "myshop.co.uk"}),
    ],
)
def test_scopes(scope: str, held: set[str]) -> None:
    hosts = ("www.shop.co.uk", "shop.co.uk", "a.www.shop.co.uk", "blog.shop.co.uk", "other.co.uk", "myshop.co.uk")
    asked = Scope(scope, [START])
    assert {host for host in hosts if asked.contains_url(f"https://{host}/x")} == held


def test_a_subdomain_stands_for_those_below_it_and_a_domain_for_all() -> None:
    start = "http://docs.example.org/"
    assert not Scope("subdomains", [start]).contains_url("http://blog.example.org/")
    assert Scope("subdomains", [start]).contains_url("http://v2.docs.example.org/")
    assert Scope("domain", [start]).contains_url("http://blog.example.org/")


def test_hosts_named_on_top_and_ports() -> None:
    asked = Scope("host", ["http://shop.test:8080/"], ["Partner.test", "*.cdn.test", "shop.test:81"])
    assert [
        asked.contains_url(f"http://{host}/")
        for host in ("shop.test:8080", "shop.test", "shop.test:81", "partner.test", "a.cdn.test", "cdn.test")
    ] == [True, False, True, True, True, False]
    asked.add_site("https://shop.test/")
    assert asked.contains_url("https://shop.test/x"), "what was judged before is judged anew"


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.shop.co.uk", "shop.co.uk"),
        ("a.b.example.com", "example.com"),
        ("me.github.io", "me.github.io"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
    ],
)
def test_registrable_domains(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


def test_the_list_of_domains_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    scopes._public_suffixes.cache_clear()
    assert registrable_domain("x.shop.co.uk") == "shop.co.uk"


@pytest.mark.parametrize(
    ("follow", "url", "depth", "refusal"),
    [
        ({}, "/a", 1, None),
        ({}, "/a", 6, "too deep"),
        ({"allow": ["/product/"]}, "/product/1", 1, None),
        ({"allow": ["/product/"]}, "/about", 1, "not allowed"),
        ({"allow": ["/product/", "/list"]}, "/list?page=2", 5, None),
        ({"allow": [{"pattern": "/list", "depth": 2}, "/product/"]}, "/list", 2, None),
        ({"allow": [{"pattern": "/list", "depth": 2}, "/product/"]}, "/list", 3, "too deep"),
        ({"allow": [{"pattern": "/list", "depth": 2}, "/product/"]}, "/list/product/", 3, None),
        ({"deny": ["[?&]sort="]}, "/list?sort=price", 1, "denied"),
        ({"deny": ["/x"], "allow": ["/x"]}, "/x", 1, "denied"),
        ({"allow": ["^https://www[.]shop[.]co[.]uk/$"]}, "/", 1, None),
        ({}, "/brochure.PDF", 1, "file type"),
        ({}, "/brochure.pdf?download", 1, "file type"),
        ({}, "/wiki/File:Tea.jpg", 1, None),
        ({}, "/v1.2/page.html", 1, None),
        ({}, "/.gif", 1, None),
        ({"skip_files": False}, "/brochure.pdf", 1, None),
        ({"skip_files": [".HTML"]}, "/x.html", 1, "file type"),
        ({"skip_files": ["html"]}, "/x.pdf", 1, None),
    ],
)
def test_refusals(follow: dict[str, Any], url: str, depth: int, refusal: str | None) -> None:
    assert rules(**follow).refusal_reason(f"{SHOP}{url}", depth) == refusal


def test_same_host_is_the_short_form_of_a_scope() -> None:
    other = "https://other.test/"
    assert rules(same_host=False).refusal_reason(other, 1) is None
    assert rules(same_host=True).refusal_reason(other, 1) == "other host"
    assert rules(same_host=True, scope="host").refusal_reason(other, 1) == "other host"
    for same_host, scope in ((True, "domain"), (False, "host")):
        with pytest.raises(BadRule, match=r"follow\.scope: .* contradict"):
            rules(same_host=same_host, scope=scope)


@pytest.mark.parametrize(
    ("follow", "field", "detail"),
    [
        ({"allow": ["ok", "a(b"]}, "follow.allow[1]", "missing )"),
        ({"allow": [{"pattern": "[z-a]"}]}, "follow.allow[0].pattern", "z-a"),
        ({"deny": ["(?!product)"]}, "follow.deny[0]", "unbounded time"),
        ({"deny": ["x", "y", r"(a)\1"]}, "follow.deny[2]", r"\1"),
        ({"deny": ["((a{100}){100}){100}"]}, "follow.deny[0]", "repetition"),
        ({"allow": [f"(x{n}|y{{1000}}z{{{n}}})" for n in range(1, 900)]}, "follow.allow", "too large together"),
    ],
)
def test_patterns_that_cannot_be_used_are_named(follow: dict[str, Any], field: str, detail: str) -> None:
    with pytest.raises(BadRule) as told:
        rules(**follow)
    assert told.value.field == field
    assert detail in str(told.value)


def test_a_pattern_cannot_hang() -> None:
    evil = Patterns([r"^(a+)+$", r"(a|aa)+$", r"(.*a){20}"], ["a", "b", "c"])
    assert evil.matching_indexes("a" * 4_000 + "!") == [2]


@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_named(pattern: str) -> None:
    try:
        found = Patterns([pattern], ["follow.deny[0]"])
    except BadRule as exc:
        assert exc.field == "follow.deny[0]"
    else:
        assert found.matching_indexes("http://shop.test/é?x=1") in ([], [0])


def taken(traps: TrapGuards, *paths: str) -> int:
    return sum(traps.refusing_guard(f"http://shop.test{path}") is None for path in paths)


def test_a_shop_comes_through_whole() -> None:
    traps = TrapGuards()
    products = [f"/product/{n}" for n in range(5_000)]
    slugs = [f"/p/blue-kettle-no-{n}" for n in range(5_000)]
    by_query = [f"/show?id={n}" for n in range(5_000)]
    pages = [f"/list?page={n}" for n in range(500)]
    filtered = [f"/category/{c}?sort=price&page={n}" for c in range(20) for n in range(100)]
    variants = [f"/product/{n}/{v}" for n in range(1_500, 2_500) for v in range(5)]
    news = [
        f"/2026/{month:02}/{day:02}/title-of-{month}-{day}-no-{word}"
        for month in range(1, 13)
        for day in range(1, 28)
        for word in ("a", "b")
    ]
    shop = [*products, *slugs, *by_query, *pages, *filtered, *variants, *news]
    assert taken(traps, *shop) == len(shop)
    assert traps.describe_refusals() == []


@pytest.mark.parametrize(
    ("paths", "guard", "most"),
    [
        ([f"/calendar/{year}/{month}" for year in range(2000, 2190) for month in range(1, 13)], "calendar", 500),
        ([f"/on/20{y}-{m:02}-{d:02}" for y in range(10, 99) for m in range(1, 13) for d in (1, 2)], "calendar", 500),
        ([f"/cal?month={m}&year={y}" for y in range(2000, 2900) for m in range(1, 13)], "calendar", 500),
        ([f"/cal?date={n}" for n in range(3_000)], "calendar", 500),
        ([f"/list?my_sid={n:032x}" for n in range(3_000)], "session", 100),
        ([f"/session/{n:012x}/page" for n in range(1_000, 3_000)], "session", 100),
        ([f"/a;xsid={n:08}" for n in range(3_000)], "session", 100),
        ([f"/find?color={c}&size={s}&of={b}" for c in range(20) for s in range(20) for b in range(9)], "query", 1_000),
        ([f"/x/a1{n * 0x9E3779B97F4A7C15 % 2**64:016x}" for n in range(51_000)], "id", 50_000),
        (["/a" * n for n in range(1, 20)], "repeats", 2),
        (["/a/b" * n for n in range(1, 10)], "repeats", 2),
        (["/x" + "".join(f"/{w}/deep" for w in "abcdefgh"[:n]) for n in range(1, 9)], "repeats", 3),
        (["".join(f"/d{at}" for at in range(n)) for n in range(1, 100)], "segments", 20),
        (["/" + "x" * n for n in range(1, 4_000, 10)], "length", 199),
    ],
)
def test_what_has_no_end_is_stopped(paths: list[str], guard: str, most: int) -> None:
    traps = TrapGuards()
    assert taken(traps, *paths) == most
    assert traps.refused == {guard: len(paths) - most}
    assert len(traps.describe_refusals()) == 1


def test_numbers_one_after_the_other_are_no_repetition() -> None:
    assert taken(TrapGuards(), "/1/1/1/1/1", "/score/1-1/1-1/1-1", "//a//a", "/a/b/a/c") == 4


def test_the_cap_of_patterns_can_be_set() -> None:
    traps = TrapGuards(TrapLimits(pattern=10))
    assert (
        taken(
            traps,
            *(f"/x/{n}" for n in range(20)),
            *(f"/y/{n}" for n in range(5)),
            *(f"/z/{c}" for c in "abcdefghijklm"),
        )
        == 25
    )
    assert traps.describe_refusals() == [
        "trap: 13 URLs like /x/{n} and 1 more patterns were left out after 10 (pattern)"
    ]


def test_made_up_hosts_are_capped() -> None:
    traps = TrapGuards(TrapLimits(hosts=3))
    assert [traps.refusing_guard(f"http://h{n}.test/x") for n in (1, 2, 3, 4, 1)] == [None, None, None, "hosts", None]
    assert traps.describe_refusals() == ["trap: 1 URLs like http://h4.test were left out after 3 (hosts)"]


def test_notes_are_for_people() -> None:
    traps = TrapGuards()
    taken(traps, *(f"/calendar/{year}/{month}" for year in range(1900, 2199) for month in range(1, 13)))
    taken(traps, "/a" * 99)
    taken(traps, "/b" * 4, "/c" * 4)
    assert traps.describe_refusals() == [
        "trap: 3,088 URLs like /calendar/{n}/{n} were left out after 500 (calendar)",
        "trap: 2 URLs like /b/b/b/b and 1 more patterns were left out: the same parts of the path again and again",
        f"trap: 1 URLs like {'/a' * 58}/... were left out: more than 20 parts in the path",
    ]


def test_shapes_are_bounded_and_traps_stay_known() -> None:
    traps = TrapGuards(TrapLimits(pattern=50), max_shapes=200)
    taken(traps, *(f"/trap/{n}" for n in range(50)))
    for n in range(5_000):
        traps.refusing_guard(f"http://shop.test/{n:x}x/y{n}z")
        traps.refusing_guard(
            f"http://shop.test/w{'abcdefghij'[n % 10]}{n % 7 * 'q'}{chr(97 + n % 26)}{chr(97 + n % 25)}/{n}"
        )
        assert len(traps._shapes) <= 200
    assert traps.refusing_guard("http://shop.test/trap/51") == "pattern"


@given(
    st.lists(st.from_regex(r"/[a-b0-9/;=-]{0,12}(\?[a-b0-9&=]{0,8})?", fullmatch=True), max_size=60), st.integers(1, 5)
)
def test_no_shape_passes_more_often_than_its_cap(paths: list[str], cap: int) -> None:
    traps = TrapGuards(TrapLimits(pattern=cap))
    passed = [path for path in dict.fromkeys(paths) if traps.refusing_guard(f"http://shop.test{path}") is None]
    assert len(passed) + traps.refused.total() == len(set(paths))
    assert all(shape.accepted <= cap for shape in traps._shapes.values())
