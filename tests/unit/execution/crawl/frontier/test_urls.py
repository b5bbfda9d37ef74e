"""One spelling per page."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.frontier.urls import (
    PAGE_LINKS,
    URL_CHARS,
    canonical_url,
    parse_origin,
    resolve_links,
    url_credentials,
    url_host,
)

BASE = "http://shop.test/a/b?c=1"
HREFS = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"(https?:)?//[a-z0-9.@:-]{1,20}(/[a-z.%#?=&]{0,20})?", fullmatch=True),
    st.from_regex(r"[./?#a-zA-Z0-9%=&:\\ -]{0,30}", fullmatch=True),
)


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("c", "http://shop.test/a/c"),
        ("/x#top", "http://shop.test/x"),
        ("?page=2", "http://shop.test/a/b?page=2"),
        ("../../../x", "http://shop.test/x"),
        ("//Other.Test:80/é", "http://other.test/%C3%A9"),
        ("HTTPS://shop.test:443", "https://shop.test/"),
        ("  /x\n", "http://shop.test/x"),
        ("http:\\\\shop.test\\x", "http://shop.test/x"),
        ("http://user:pw@shop.test/x", "http://shop.test/x"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("mailto:a@b.test", None),
        ("javascript:void(0)", None),
        ("ftp://shop.test/", None),
        ("data:text/html,x", None),
        ("http://", None),
        ("http://a b/", None),
        ("/\ud800", None),
        ("/" + "x" * URL_CHARS, None),
    ],
)
def test_canonical(href: str, url: str | None) -> None:
    assert canonical_url(href, BASE) == url


@given(HREFS)
def test_a_canonical_url_stays_as_it_is_and_is_a_page(href: str) -> None:
    url = canonical_url(href, BASE)
    if url is not None:
        assert canonical_url(url) == canonical_url(url, BASE) == url
        parsed = ada_url.URL(url)
        assert parsed.protocol in {"http:", "https:"}
        assert not (parsed.hash or parsed.username or parsed.password)
        assert url_host(url) == parsed.host
        where = parse_origin(url)
        assert where.host == parsed.hostname
        assert where.port == int(parsed.port or {"http": 80, "https": 443}[where.scheme])


@given(st.lists(HREFS, max_size=30))
def test_followed_is_each_target_once_in_order(hrefs: list[str]) -> None:
    got = resolve_links(hrefs, BASE)
    expected = [canonical_url(href, BASE) for href in hrefs if href and not href.startswith("#")]
    assert got == list(dict.fromkeys(url for url in expected if url is not None))


def test_a_page_of_very_many_links_is_cut() -> None:
    assert len(resolve_links((f"/{n}" for n in range(10 * PAGE_LINKS)), BASE)) == PAGE_LINKS


def test_credentials() -> None:
    assert url_credentials("http://user:pw@shop.test/") == ("user", "pw")
    assert url_credentials("http://shop.test/") is None
    assert url_credentials("nonsense") is None
