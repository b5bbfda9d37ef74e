from typing import Any

import pytest

from crawlfleet.control.tasks.task_content import content_features, first_parameter_host
from crawlfleet.scheduling.placement.evidence_subjects import (
    HOST_BUCKETS,
    MAX_NAMED_HOSTS,
    MAX_WORDS,
    HostClasses,
    content_subjects,
    host_bucket,
    outcome_subjects,
    strategy_subjects,
)

FEATURES = {"content_type": "HTML", "technologies": ["React", "webpack"], "anti_crawling": "cloudflare", "pages": 3}


def test_the_words_that_strategies_know_are_found_whatever_their_spelling() -> None:
    assert content_subjects(FEATURES) == (
        ("bypass", "cloudflare"),
        ("content_type", "html"),
        ("technology", "react"),
        ("technology", "webpack"),
    )


@pytest.mark.parametrize(
    "features",
    [{}, {"content_type": None}, {"content_type": 3}, {"technology": {}}, {"technologies": [[], 1, " ", "x" * 101]}],
)
def test_what_is_no_word_says_nothing(features: dict[str, Any]) -> None:
    assert content_subjects(features) == ()


def test_words_are_bounded() -> None:
    assert len(content_subjects({"technologies": [f"t{n}" for n in range(100)]})) == MAX_WORDS


def test_each_strategy_asks_for_what_it_looks_at() -> None:
    hosts = HostClasses()
    content = (("content_type", "html"), ("technology", "react"), ("technology", "webpack"))
    assert strategy_subjects("content_based", FEATURES, "a.example", hosts) == content
    assert strategy_subjects("anti_crawling", FEATURES, "a.example", hosts) == (
        ("bypass", "cloudflare"),
        ("host", "a.example"),
    )
    assert strategy_subjects("anti_crawling", {}, None, hosts) == ()
    assert strategy_subjects("least_loaded", FEATURES, "a.example", hosts) == ()


def test_hosts_beyond_the_bound_share_classes() -> None:
    hosts = HostClasses()
    found = {hosts.host_subject(f"{number}.example") for number in range(10_000)}
    assert MAX_NAMED_HOSTS < len(found) <= MAX_NAMED_HOSTS + HOST_BUCKETS
    assert hosts.host_subject("0.example") == ("host", "0.example")
    assert hosts.host_subject("9999.example") == host_bucket("9999.example")


def test_an_outcome_counts_for_the_host_and_for_its_bucket() -> None:
    assert outcome_subjects({"content_type": "pdf", "anti_crawling": "captcha"}, "a.example") == (
        ("content_type", "pdf"),
        ("host", "a.example"),
        host_bucket("a.example"),
    )
    assert outcome_subjects({}, None) == ()


@pytest.mark.parametrize(
    ("parameters", "host"),
    [
        (b'{"url": "https://Shop.Example:8443/a?b"}', "shop.example"),
        (b'{"urls": ["http://a.example/", "http://b.example/"], "url": "http://c.example"}', "a.example"),
        (b'{"start_urls": ["http://user:secret@a.example"], "depth": 2}', "a.example"),
        (b'{"start_urls": [], "urls": "http://b.example"}', "b.example"),
        (b'{"url": "http://[::1]/"}', "::1"),
        (b'{"url": "http://[half"}', None),
        (b'{"url": 7, "urls": {"a": 1}, "start_urls": [null]}', None),
        (b'{"url": "no url"}', None),
        (b"{}", None),
    ],
)
def test_the_host_is_that_of_the_first_url(parameters: bytes, host: str | None) -> None:
    assert first_parameter_host(parameters) == host


def test_features_are_read_from_a_spec() -> None:
    assert content_features(b'{"content_features": {"a": 1}, "categories": []}') == {"a": 1}
    assert content_features(b"{}") == {}
