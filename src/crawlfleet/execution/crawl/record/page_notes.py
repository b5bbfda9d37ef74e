"""Page notes: what a crawl records of each page, for people and for the next crawl of the site.

A note is an item of its own kind: `_page` is the URL, with status, depth, size, ETag, Last-Modified and a hash of the
bytes. A crawl that names an earlier one requests pages on the condition that they have changed (conditional requests),
and notes for each how it compares: new, changed, unchanged, gone or failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from crawlfleet.execution.crawl.engine.collected_items import Emit
from crawlfleet.execution.crawl.fetch.responses import Fetched
from crawlfleet.execution.crawl.frontier.frontier import Link
from crawlfleet.execution.page_failures import PageFailed

MARK = "_page"
PAGES = 500_000
"""Limit on pages of an earlier crawl that are remembered."""
SHOWN = 100
NEW, CHANGED, UNCHANGED, GONE = "new", "changed", "unchanged", "gone"
FAILED = "failed"
"""Change of a page that failed, so that its content is unknown.

It is noted with what was known of it before, as the pages that link to it may not be read the next time.
"""
_CHARS = 1_000
"""Limit on characters of a header that is noted."""


class Was(NamedTuple):
    """The note of a page in the earlier crawl."""

    depth: int
    etag: str
    last_modified: str
    hash: str


class Earlier:
    """The page notes of an earlier crawl per URL."""

    def __init__(self) -> None:
        self.pages: dict[str, Was] = {}
        self.is_cut = False

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add the notes among items of any kind, except for notes of pages that were gone."""
        for record in records:
            url = record.get(MARK)
            if not isinstance(url, str) or record.get("change") == GONE:
                continue
            if len(self.pages) >= PAGES:
                self.is_cut = True
                return
            depth = record.get("depth")
            texts = (record.get(name) for name in ("etag", "last_modified", "hash"))
            known = [text if isinstance(text, str) else "" for text in texts]
            self.pages[url] = Was(depth if isinstance(depth, int) and depth >= 0 else 0, *known)


class PageBook:
    def __init__(self, emit: Emit, earlier: Earlier | None = None, *, keeps_unchanged: bool = False) -> None:
        self._emit = emit
        self._earlier = earlier
        self._keeps_unchanged = keeps_unchanged
        self._left = set() if earlier is None else {url for url, was in earlier.pages.items() if was.hash}
        """Pages of the earlier crawl of which nothing is known yet."""
        self._failed: list[Mapping[str, Any]] = []
        self.changes: Counter[str] = Counter()
        self.shown: dict[str, list[str]] = {}

    def known(self) -> list[tuple[str, int]]:
        """Return the pages of the earlier crawl, each with its depth from the start."""
        return [] if self._earlier is None else [(url, was.depth) for url, was in self._earlier.pages.items()]

    def conditions(self, url: str) -> dict[str, str]:
        """Return the headers that request the page only if it has changed."""
        was = None if self._earlier is None or self._keeps_unchanged else self._earlier.pages.get(url)
        if was is None:
            return {}
        asked = {"If-None-Match": was.etag, "If-Modified-Since": was.last_modified}
        return {name: value for name, value in asked.items() if value}

    async def read(self, link: Link, fetched: Fetched) -> bool:
        """Note a page that was read, and return whether its items are to be kept."""
        was = None if self._earlier is None else self._earlier.pages.get(fetched.url)
        if fetched.status == 304 and was is not None:
            hashed, etag, modified = was.hash, fetched.etag or was.etag, fetched.last_modified or was.last_modified
        else:
            hashed = blake2b(fetched.body, digest_size=16).hexdigest()
            etag, modified = fetched.etag[:_CHARS], fetched.last_modified[:_CHARS]
        is_same = was is not None and was.hash == hashed
        note = {
            "status": fetched.status,
            "depth": link.depth,
            "hash": hashed,
            "etag": etag,
            "last_modified": modified,
            "bytes": len(fetched.body),
            "content_type": fetched.content_type,
            "took_ms": round(1000 * fetched.took_s),
        }
        is_new = was is None or not was.hash
        await self._note(link, fetched.url, note, UNCHANGED if is_same else NEW if is_new else CHANGED)
        return self._keeps_unchanged or not is_same

    def failed(self, link: Link, failure: PageFailed) -> None:
        """Note a failed page; one that answers 404 or 410 is gone, and of any other the content is unknown."""
        if failure.status not in {404, 410}:
            self._left.discard(link.url)
            self.put_failed(link, self._failure(link, failure))

    def put_failed(self, link: Link, note: Mapping[str, Any]) -> None:
        self._failed.append(note)

    async def finish(self, *, is_whole: bool) -> None:
        """Write the notes of failed pages.

        If the crawl is whole, note the pages of the earlier crawl that were not found again as gone: there was time to
        find them.
        """
        for note in self._failed:
            await self.put(None, note)
        if is_whole:
            for url in sorted(self._left):
                await self._note(None, url, {}, GONE)

    @property
    def unseen(self) -> int:
        return len(self._left)

    def _failure(self, link: Link, failure: PageFailed) -> dict[str, Any]:
        was = None if self._earlier is None else self._earlier.pages.get(link.url)
        known = Was(link.depth, "", "", "") if was is None else was
        return {MARK: link.url, "change": FAILED, "status": failure.status, **known._asdict()}

    async def put(self, link: Link | None, note: Mapping[str, Any]) -> None:
        """Write a note; `link` is the link that led to the page, None for a page that is gone."""
        await self._emit(note)

    async def _note(self, link: Link | None, url: str, note: Mapping[str, Any], change: str) -> None:
        self._left.discard(url)
        said = {}
        if self._earlier is not None:
            said = {"change": change}
            self.changes[change] += 1
            if change != UNCHANGED and len(urls := self.shown.setdefault(change, [])) < SHOWN:
                urls.append(url)
        await self.put(link, {MARK: url, **said, **note})
