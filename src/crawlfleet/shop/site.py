"""The site: which page a request gets, from which version of the shop, and how it is kept for the next one.

Answers are whole bytes in a dictionary: what a crawl is measured against must cost less than the crawl. Only pages that
name their own address are made anew for each request.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from email.utils import format_datetime, parsedate_to_datetime
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple

from crawlfleet.shop import markup
from crawlfleet.shop.catalogue import Catalogue, changed_at
from crawlfleet.shop.connection import Answer, Talk
from crawlfleet.shop.control import control
from crawlfleet.shop.http import Request, reply
from crawlfleet.shop.log import RequestLog
from crawlfleet.shop.memory import Memory
from crawlfleet.shop.nasty.robots import robots_answer
from crawlfleet.shop.nasty.table import behaviour_of
from crawlfleet.shop.page_gate import PREFIX, PageGate
from crawlfleet.shop.plain import PlainShop
from crawlfleet.shop.site_page import HOST, ORIGIN, Known, Page, Rules, Storefront
from crawlfleet.shop.storefront import NastyShop

CACHE_BYTES = 400_000_000
VERSIONS = 20
MISSING = reply(404, "<!doctype html><title>Not found</title><p>There is no such page.</p>")


@dataclass(frozen=True, slots=True)
class SiteOptions:
    products: int = 5_000
    seed: int = 1
    is_plain: bool = False
    """The demo shop: one notation of prices, one URL per page, no corners."""
    has_traps: bool = False
    """The front page links to the traps. They are served in any case."""
    page_bytes: int = 0
    """Product pages are filled up with text to about this size."""
    most_per_second: int | None = None
    """Above this rate (in any sliding second, per host name) every page is answered 429."""
    robots: str = "shop"
    """The variant of robots.txt for host names that do not ask for one (`robots-404.…`)."""


class Changes(NamedTuple):
    new: list[str]
    changed: list[str]
    gone: list[str]


class Kept(NamedTuple):
    answer: bytes
    etag: str
    changed_in: int


class Site:
    def __init__(self, options: SiteOptions) -> None:
        self.options = options
        self.log = RequestLog()
        self.memory = Memory()
        self.gate = PageGate()
        self.version = 1
        self.robots = options.robots
        self.most_per_second = options.most_per_second
        self._shop_of = cache(self._shop)
        self._kept: dict[str, Kept] = {}
        self._kept_bytes = 0

    def _shop(self, version: int) -> Storefront:
        asked = self.options
        catalogue = Catalogue(asked.products, asked.seed, version, is_plain=asked.is_plain)
        if asked.is_plain:
            return PlainShop(catalogue)
        return NastyShop(catalogue, page_bytes=asked.page_bytes, has_traps=asked.has_traps)

    @property
    def shop(self) -> Storefront:
        return self._shop_of(self.version)

    def set_version(self, version: int) -> None:
        """Time passes: what is new, changed and gone from now on is settled by the seed."""
        self.version = _checked(version)
        self._kept.clear()
        self._kept_bytes = 0

    def known(self) -> list[Known]:
        return self.shop.known()

    def reachable(self, rules: Rules | None = None) -> list[str]:
        """The site's own list: every page that a crawl from `/` under these rules comes to, each once."""
        wanted = rules or Rules()
        return sorted({known.path for known in self.known() if wanted.include(known)})

    def items(self) -> list[dict[str, Any]]:
        """What a crawl should find: one for each product."""
        return [markup.item(product) for product in self.shop.catalogue.products]

    def changes(self, before: int, after: int, rules: Rules | None = None) -> Changes:
        """Between two versions, page by page."""
        wanted = rules or Rules()
        old, new = (self._bodies(self._shop_of(version), wanted) for version in map(_checked, (before, after)))
        return Changes(
            new=sorted(new.keys() - old.keys()),
            changed=sorted(path for path in new.keys() & old.keys() if new[path] != old[path]),
            gone=sorted(old.keys() - new.keys()),
        )

    def _bodies(self, shop: Storefront, rules: Rules) -> dict[str, bytes | None]:
        paths = {known.path for known in shop.known() if rules.include(known)}
        pages = {path: shop.page(*_split(path)) for path in paths}
        return {path: page.body if page else None for path, page in pages.items()}

    def answer(self, talk: Talk) -> Answer:
        request = talk.request
        if request.path.startswith(PREFIX):
            return control(self, talk)
        self.log.note(request)
        if self.most_per_second is not None and not self.memory.is_open(request.host, self.most_per_second):
            return reply(429, "Slowly, please.", [("Retry-After", "1")])
        if request.path == "/robots.txt":
            return robots_answer(talk, self.robots, self.shop.robots().replace(ORIGIN, request.origin))
        if (behaviour := behaviour_of(request.path)) is not None:
            return behaviour.answer(talk)
        return self._page(request)

    def _page(self, request: Request) -> bytes:
        if request.method not in {"GET", "HEAD"}:
            return reply(405, "Only to be read.", [("Allow", "GET, HEAD")])
        kept = self._kept.get(request.target)
        if kept is None:
            page = self.shop.page(request.path, request.query)
            if page is None:
                return MISSING
            kept = self._make(request, page)
        return _not_modified(kept) if _is_unchanged(request, kept) else kept.answer

    def _make(self, request: Request, page: Page) -> Kept:
        body, is_own = page.body, ORIGIN.encode() in page.body or HOST.encode() in page.body
        if is_own:
            body = body.replace(ORIGIN.encode(), request.origin.encode()).replace(HOST.encode(), request.host.encode())
        if page.is_gzipped:
            body = gzip.compress(body, 6, mtime=0)
        etag, since = f'"{blake2b(body, digest_size=12).hexdigest()}"', self._changed_in(request, page)
        headers = [*page.headers, ("ETag", etag), ("Last-Modified", _http_date(since)), ("Server", "shop")]
        if page.status != 200:
            headers = list(page.headers)
        kept = Kept(reply(page.status, body, headers, page.content_type), etag, since)
        if not is_own and self._kept_bytes < CACHE_BYTES:
            self._kept[request.target] = kept
            self._kept_bytes += len(kept.answer)
        return kept

    def _changed_in(self, request: Request, page: Page) -> int:
        """The oldest version from which on the page is as it is now."""
        since = self.version
        while since > 1 and self._shop_of(since - 1).page(request.path, request.query) == page:
            since -= 1
        return since


def _checked(version: int) -> int:
    if not 1 <= version <= VERSIONS:
        raise ValueError(f"version: between 1 and {VERSIONS}")
    return version


def _split(path: str) -> tuple[str, str]:
    front, _, query = path.partition("?")
    return front, query


@cache
def _http_date(version: int) -> str:
    return format_datetime(changed_at(version), usegmt=True)


def _is_unchanged(request: Request, kept: Kept) -> bool:
    """As RFC 9110 orders them: where there is an ETag to compare, the date is not looked at."""
    tags, since = request.headers.get("if-none-match"), request.headers.get("if-modified-since")
    if (tags is None and since is None) or not kept.answer.startswith(b"HTTP/1.1 200"):
        return False
    if tags is not None:
        return tags == "*" or kept.etag in {tag.strip().removeprefix("W/") for tag in tags.split(",")}
    try:
        return changed_at(kept.changed_in) <= parsedate_to_datetime(since or "")
    except (ValueError, TypeError):
        return False


def _not_modified(kept: Kept) -> bytes:
    lines = ("HTTP/1.1 304 Not Modified", f"ETag: {kept.etag}", f"Last-Modified: {_http_date(kept.changed_in)}", "", "")
    return "\r\n".join(lines).encode()
