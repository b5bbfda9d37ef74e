"""The site of the demo shop: its pages, its own list of them, conditional requests, and nothing of the nasty site."""

from __future__ import annotations

import re
from itertools import product

import pytest

from crawlfleet.demo_shop.catalogue import make_catalogue
from crawlfleet.demo_shop.http_messages import Request
from crawlfleet.demo_shop.site import DemoSite
from testkit.site import BEHAVIOURS, Site, SiteOptions
from testkit.site.plain_storefront import AWKWARD

CATALOGUE = make_catalogue(60)
_FRONTS = (
    "/",
    "/products",
    "/category",
    "/category/kitchen",
    "/about",
    "/robots.txt",
    "/sitemap.xml",
    "/-/log",
    "/nasty",
)
# A superscript two is a digit to Python, and one byte of a request line.
_TAILS = ("", "0", "1", "\xb2", "9" * 30, "..", "%zz", "\x00")
_QUERIES = ("", "?", "?page=\xb2", "?page=0", f"?page={'9' * 40}", "?&&==&")


@pytest.fixture(scope="module")
def site() -> DemoSite:
    return DemoSite(CATALOGUE)


def ask(site: DemoSite, target: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent = {"host": "shop.test:8001"} | {name.replace("_", "-"): value for name, value in headers.items()}
    answer = site.answer_request(Request(method, target, sent, client=("127.0.0.1", 9), is_old=False))
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines), body


def test_a_shop_begins_like_a_larger_one() -> None:
    assert make_catalogue(50).products == make_catalogue(500).products[:50]
    assert make_catalogue(50, seed=2).products != make_catalogue(50).products


def test_every_listed_page_is_served_and_every_link_leads_to_one(site: DemoSite) -> None:
    listed = CATALOGUE.page_paths()
    linked = {"/"}
    for path in listed:
        status, headers, body = ask(site, path)
        assert (status, headers["Content-Length"]) == (200, str(len(body))), path
        linked |= {href.partition("#")[0] for href in re.findall(r'href="([^"]+)"', body.decode())}
    assert linked == set(listed)


def test_robots_and_sitemap_name_the_host_that_was_asked(site: DemoSite) -> None:
    status, headers, body = ask(site, "/robots.txt")
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert b"Disallow: /private/" in body and b"Sitemap: http://shop.test:8001/sitemap.xml" in body
    sitemap = ask(site, "/sitemap.xml", host="other.test")[2].decode()
    assert re.findall(r"<loc>http://other\.test(/[^<]*)</loc>", sitemap) == CATALOGUE.page_paths()


def test_conditional_requests(site: DemoSite) -> None:
    _, headers, body = ask(site, "/products/7")
    etag, dated = headers["ETag"], headers["Last-Modified"]
    assert body and dated == "Thu, 01 Jan 2026 00:00:00 GMT"
    for unchanged in ({"if_none_match": etag}, {"if_none_match": f'"x", W/{etag}'}, {"if_modified_since": dated}):
        assert ask(site, "/products/7", **unchanged)[::2] == (304, b"")
    for changed in ({"if_none_match": '"x"', "if_modified_since": dated}, {"if_modified_since": "yesterday"}):
        assert ask(site, "/products/7", **changed)[0] == 200


def test_it_is_only_to_be_read(site: DemoSite) -> None:
    assert ask(site, "/products/7", method="POST")[0] == 405


def test_nothing_of_the_nasty_site_is_in_it(site: DemoSite) -> None:
    nasty = [behaviour.path for behaviour in BEHAVIOURS]
    for path in (*nasty, *AWKWARD, "/awkward", "/nasty/", "/-/log", "/-/hold", "/-/pages"):
        assert ask(site, path)[0] == 404, path


def test_the_test_site_serves_the_same_pages(site: DemoSite) -> None:
    """What the product's tests crawl under `is_plain` is what the demo serves."""
    plain = Site(SiteOptions(60, is_plain=True))
    assert [page.path for page in plain.list_pages()] == CATALOGUE.page_paths()
    for path in CATALOGUE.page_paths():
        page = plain.shop.find_page(path.partition("?")[0], path.partition("?")[2])
        assert page is not None and page.body == ask(site, path)[2], path


@pytest.mark.parametrize("front", _FRONTS)
def test_no_request_breaks_the_site(site: DemoSite, front: str) -> None:
    for tail, query in product(_TAILS, _QUERIES):
        target = f"{front}/{tail}{query}" if tail else f"{front}{query}"
        answer = site.answer_request(Request("GET", target, {"host": "a\xe9"}, client=("", 0), is_old=False))
        assert re.match(rb"HTTP/1\.1 [24]\d\d ", answer), target
