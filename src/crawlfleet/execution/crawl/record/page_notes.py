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


class EarlierNote(NamedTuple):
    """The note of a page in the earlier crawl."""

    depth: int
    etag: str
    last_modified: str
    hash: str


class EarlierNotes:
    """The page notes of an earlier crawl per URL."""

    def __init__(self) -> None:
        self.pages: dict[str, EarlierNote] = {}
        self.is_cut = False

    def add_notes(self, records: Iterable[Mapping[str, Any]]) -> None:
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
            headers = [text if isinstance(text, str) else "" for text in texts]
            self.pages[url] = EarlierNote(depth if isinstance(depth, int) and depth >= 0 else 0, *headers)


class PageNotes:
    def __init__(self, emit: Emit, earlier: EarlierNotes | None = None, *, keeps_unchanged: bool = False) -> None:
        self._emit = emit
        self._earlier = earlier
        self._keeps_unchanged = keeps_unchanged
        self._unseen = set() if earlier is None else {url for url, note in earlier.pages.items() if note.hash}
        """Pages of the earlier crawl of which nothing is known yet."""
        self._failed_notes: list[Mapping[str, Any]] = []
        self.changes: Counter[str] = Counter()
        self.shown_urls: dict[str, list[str]] = {}

    def earlier_pages(self) -> list[tuple[str, int]]:
        """Return the pages of the earlier crawl, each with its depth from the start."""
        return [] if self._earlier is None else [(url, note.depth) for url, note in self._earlier.pages.items()]

    def request_conditions(self, url: str) -> dict[str, str]:
        """Return the headers that request the page only if it has changed."""
        earlier = None if self._earlier is None or self._keeps_unchanged else self._earlier.pages.get(url)
        if earlier is None:
            return {}
        headers = {"If-None-Match": earlier.etag, "If-Modified-Since": earlier.last_modified}
        return {name: value for name, value in headers.items() if value}

    async def note_page(self, link: Link, fetched: Fetched) -> bool:
        """Note a page that was read, and return whether its items are to be kept."""
        earlier = None if self._earlier is None else self._earlier.pages.get(fetched.url)
        if fetched.status == 304 and earlier is not None:
            hashed, etag, modified = (
                earlier.hash,
                fetched.etag or earlier.etag,
                fetched.last_modified or earlier.last_modified,
            )
        else:
            hashed = blake2b(fetched.body, digest_size=16).hexdigest()
            etag, modified = fetched.etag[:_CHARS], fetched.last_modified[:_CHARS]
        is_same = earlier is not None and earlier.hash == hashed
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
        is_new = earlier is None or not earlier.hash
        await self._write_change(link, fetched.url, note, UNCHANGED if is_same else NEW if is_new else CHANGED)
        return self._keeps_unchanged or not is_same

    def note_failure(self, link: Link, failure: PageFailed) -> None:
        """Note a failed page; one that answers 404 or 410 is gone, and of any other the content is unknown."""
        if failure.status not in {404, 410}:
            self._unseen.discard(link.url)
            self.write_failed_note(link, self._make_failed_note(link, failure))

    def write_failed_note(self, link: Link, note: Mapping[str, Any]) -> None:
        self._failed_notes.append(note)

    async def finish(self, *, is_whole: bool) -> None:
        """Write the notes of failed pages.

        If the crawl is whole, note the pages of the earlier crawl that were not found again as gone: there was time to
        find them.
        """
        for note in self._failed_notes:
            await self.write_note(None, note)
        if is_whole:
            for url in sorted(self._unseen):
                await self._write_change(None, url, {}, GONE)

    @property
    def unseen_count(self) -> int:
        return len(self._unseen)

    def _make_failed_note(self, link: Link, failure: PageFailed) -> dict[str, Any]:
        earlier = None if self._earlier is None else self._earlier.pages.get(link.url)
        last_note = EarlierNote(link.depth, "", "", "") if earlier is None else earlier
        return {MARK: link.url, "change": FAILED, "status": failure.status, **last_note._asdict()}

    async def write_note(self, link: Link | None, note: Mapping[str, Any]) -> None:
        """Write a note; `link` is the link that led to the page, None for a page that is gone."""
        await self._emit(note)

    async def _write_change(self, link: Link | None, url: str, note: Mapping[str, Any], change: str) -> None:
        self._unseen.discard(url)
        change_fields = {}
        if self._earlier is not None:
            change_fields = {"change": change}
            self.changes[change] += 1
            if change != UNCHANGED and len(urls := self.shown_urls.setdefault(change, [])) < SHOWN:
                urls.append(url)
        await self.write_note(link, {MARK: url, **change_fields, **note})
