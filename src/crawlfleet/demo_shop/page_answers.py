"""Responses for the pages of a site, as whole bytes, with ETag and Last-Modified.

They are cached: the site that a crawl is measured against must cost less than the crawl. Only pages that contain their
own address are made anew for each request.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

from crawlfleet.demo_shop.http_messages import Request, write_response
from crawlfleet.demo_shop.site_page import HOST, ORIGIN, Page

CACHE_BYTES = 400_000_000
"""Size above which no further responses are cached."""
_MISSING = write_response(404, "<!doctype html><title>Not found</title><p>There is no such page.</p>")


class _CachedAnswer(NamedTuple):
    """A response with its validators."""

    answer: bytes
    etag: str
    changed_at: datetime


class PageAnswers:
    """The responses for a site's pages: `find_page` is called with path and query, `changed_at` dates a page."""

    def __init__(
        self, find_page: Callable[[str, str], Page | None], changed_at: Callable[[Request, Page], datetime]
    ) -> None:
        self._find_page = find_page
        self._changed_at = changed_at
        self._cache: dict[str, _CachedAnswer] = {}
        self._cached_bytes = 0

    def answer_request(self, request: Request) -> bytes:
        if request.method not in {"GET", "HEAD"}:
            return write_response(405, "Only to be read.", [("Allow", "GET, HEAD")])
        cached = self._cache.get(request.target)
        if cached is None:
            page = self._find_page(request.path, request.query)
            if page is None:
                return _MISSING
            cached = self._make_answer(request, page)
        return _not_modified(cached) if _is_unchanged(request, cached) else cached.answer

    def clear_cache(self) -> None:
        self._cache.clear()
        self._cached_bytes = 0

    def _make_answer(self, request: Request, page: Page) -> _CachedAnswer:
        body, names_itself = page.body, ORIGIN.encode() in page.body or HOST.encode() in page.body
        if names_itself:
            body = body.replace(ORIGIN.encode(), request.origin.encode()).replace(HOST.encode(), request.host.encode())
        if page.is_gzipped:
            body = gzip.compress(body, 6, mtime=0)
        etag, changed_at = f'"{blake2b(body, digest_size=12).hexdigest()}"', self._changed_at(request, page)
        headers = [*page.headers, ("ETag", etag), ("Last-Modified", _http_date(changed_at)), ("Server", "shop")]
        if page.status != 200:
            headers = list(page.headers)
        answer = _CachedAnswer(write_response(page.status, body, headers, page.content_type), etag, changed_at)
        if not names_itself and self._cached_bytes < CACHE_BYTES:
            self._cache[request.target] = answer
            self._cached_bytes += len(answer.answer)
        return answer


@cache
def _http_date(instant: datetime) -> str:
    return format_datetime(instant, usegmt=True)


def _is_unchanged(request: Request, cached: _CachedAnswer) -> bool:
    """Return whether a 304 is due, in the order of RFC 9110: if there is an ETag to compare, the date is ignored."""
    tags, since = request.headers.get("if-none-match"), request.headers.get("if-modified-since")
    if (tags is None and since is None) or not cached.answer.startswith(b"HTTP/1.1 200"):
        return False
    if tags is not None:
        return tags == "*" or cached.etag in {tag.strip().removeprefix("W/") for tag in tags.split(",")}
    try:
        return cached.changed_at <= parsedate_to_datetime(since or "")
    except (ValueError, TypeError):
        return False


def _not_modified(cached: _CachedAnswer) -> bytes:
    last_modified = f"Last-Modified: {_http_date(cached.changed_at)}"
    return "\r\n".join(("HTTP/1.1 304 Not Modified", f"ETag: {cached.etag}", last_modified, "", "")).encode()
