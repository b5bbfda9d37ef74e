"""What may be asked of a host, how long it is left alone, and how hosts are written."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given

from crawlfleet.execution.crawl.frontier.urls import budget_host, canonical_url
from crawlfleet.model.host import Backoff, HostLimits, Units, target_host
from crawlfleet.scheduling.hosts.budgets import effective_budget, parse_concurrency, parse_delay, parse_rate
from crawlfleet.scheduling.hosts.host_backoff import (
    CAP_MS,
    FIRST_MS,
    QUIET_MS,
    RETRY_AFTER_CAP_MS,
    backoff_after_quiet,
    backoff_after_refusal,
)

USUAL = HostLimits(10.0, 8, 0.0)
NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("own", "crawl_delay_s", "level", "pool", "spacing_ms"),
    [
        (HostLimits(), 0.0, 0, Units(10, 8), 0),
        (HostLimits(rate=20.0, concurrency=3), 0.0, 0, Units(20, 3), 0),
        (HostLimits(rate=0.5), 0.0, 0, Units(1, 8), 2_100),
        (HostLimits(delay_s=0.2), 0.0, 0, Units(1, 8), 210),
        (HostLimits(), 3.0, 0, Units(1, 8), 3_150),
        (HostLimits(delay_s=0.0), 3.0, 0, Units(10, 8), 0),
        (HostLimits(), 0.0, 1, Units(5, 8), 0),
        (HostLimits(), 0.0, 2, Units(2, 8), 0),
        (HostLimits(), 0.0, 4, Units(1, 8), 1_680),
        (HostLimits(rate=1.0), 2.0, 1, Units(1, 8), 2_100),
    ],
)
def test_budgets(own: HostLimits, crawl_delay_s: float, level: int, pool: Units, spacing_ms: int) -> None:
    budget = effective_budget(own, USUAL, crawl_delay_s, level)
    assert (budget.pool, budget.spacing_ms) == (pool, spacing_ms)


def test_every_part_says_where_it_comes_from() -> None:
    budget = effective_budget(HostLimits(rate=4.0), USUAL, 2.0, 0)
    assert (budget.rate_from, budget.concurrency_from, budget.delay_from) == ("host", "default", "robots")
    assert effective_budget(HostLimits(rate=4.0), USUAL, 0.0, 1).rate_from == "back-off"


@pytest.mark.parametrize("value", [0, -1, 10_001, "5", True, None, float("nan")])
def test_rates_that_make_no_sense(value: object) -> None:
    with pytest.raises(ValueError, match="a second"):
        parse_rate(value)


def test_values_are_read() -> None:
    assert (parse_rate(2.9), parse_rate(0.25), parse_concurrency(3), parse_delay(1)) == (2.0, 0.25, 3, 1.0)
    for bad in (0, 1.0, True):
        with pytest.raises(ValueError, match="whole number"):
            parse_concurrency(bad)
    with pytest.raises(ValueError, match="seconds"):
        parse_delay(-1)


def test_a_back_off_doubles_up_to_a_cap() -> None:
    backoff, now, spans = Backoff(), NOW, []
    for _ in range(15):
        backoff = backoff_after_refusal(backoff, "answered 429", 0, now, Random(3))
        spans.append(backoff.until - now)
        now = backoff.until
    assert 0.8 * FIRST_MS <= spans[0] <= 1.2 * FIRST_MS
    assert all(1.3 < later / earlier < 3 for earlier, later in pairwise(spans[:8]))
    assert max(spans) <= 1.2 * CAP_MS


def test_refusals_of_one_moment_are_one() -> None:
    first = backoff_after_refusal(Backoff(), "answered 429", 0, NOW, Random(1))
    again = backoff_after_refusal(first, "answered 503", 0, NOW + 100, Random(1))
    assert (again.level, again.until, again.reason) == (1, first.until, "answered 429")
    longer = backoff_after_refusal(first, "answered 503", 90_000, NOW + 100, Random(1))
    assert (longer.level, longer.until) == (1, NOW + 90_100)


@given(st.integers(0, 10**9), st.randoms(use_true_random=False))
def test_retry_after_is_kept_and_bounded(asked_ms: int, rng: Random) -> None:
    span_ms = backoff_after_refusal(Backoff(), "answered 503", asked_ms, NOW, rng).until - NOW
    assert min(asked_ms, RETRY_AFTER_CAP_MS) <= span_ms <= 1.1 * RETRY_AFTER_CAP_MS + 1.2 * FIRST_MS


def test_a_level_is_forgiven_for_each_quiet_span() -> None:
    backoff = Backoff(3, NOW, NOW, "answered 429")
    assert backoff_after_quiet(backoff, NOW - 1) is backoff
    assert backoff_after_quiet(backoff, NOW + QUIET_MS - 1) is backoff
    once = backoff_after_quiet(backoff, NOW + QUIET_MS)
    assert (once.level, once.quiet_since) == (2, NOW + QUIET_MS)
    assert backoff_after_quiet(once, NOW + QUIET_MS + 5) is once
    assert backoff_after_quiet(backoff, NOW + 3 * QUIET_MS) == Backoff()


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("example.com:443", "example.com"),
        ("example.com:80", "example.com"),
        ("example.com:8080", "example.com:8080"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("[::1]:8080", "[::1]:8080"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_a_host_has_one_spelling(text: str, host: str) -> None:
    assert target_host(text) == host
    assert target_host(host) == host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Example.com./a", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("http://example.com.:8080/x", "example.com:8080"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_the_host_of_a_url_is_the_one_people_write(url: str, host: str) -> None:
    assert budget_host(canonical_url(url) or "") == host == target_host(host)


@pytest.mark.parametrize("text", ["", "a b", "10.0.0.0/8", "http://a.example", "a.example:0", "a.example:99999", "-"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host"):
        target_host(text)
