"""The sitemap parser (sitemaps.org) reads XML or plain lines, compressed or not, in steps and within limits.

It takes bytes and yields entries: a sitemap is never trusted to be small, complete or true. Entities are not expanded
and nothing is fetched. A broken file yields the entries before the error, and `problem` gives the reason.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.parsers import expat

from crawlfleet.execution.crawl.frontier.urls import URL_CHARS, canonical_url

FILE_BYTES = 50 << 20
"""Limit on the decompressed size of a sitemap, as the protocol defines it."""
MAX_ENTRIES = 50_000
MAX_ELEMENTS = 1_000_000
MAX_LEVELS = 3
"""Limit on the nesting of sitemaps in sitemaps."""
MAX_SITEMAPS = 1_000
"""Limit on sitemaps of one crawl."""
STEP_BYTES = 64 << 10
MAX_ALTERNATES = 200
MAX_NESTING = 50
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
# An ampersand that begins no reference known to XML is the most frequent mistake in sitemaps, and the URL is clear all
# the same.
_BARE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
_LONGEST_REFERENCE = 10


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    url: str
    """Canonical URL of the page or sitemap."""
    changed_at: datetime | None = None
    """Instant of the last change as the site states it; a day stands for its first instant."""
    alternates: tuple[tuple[str, str], ...] = ()
    """Language and canonical URL of the same page in other languages."""
    is_sitemap: bool = False


class _StopReading(Exception):
    """Raised to stop reading a file; the message gives the reason."""


class Sitemap:
    """One sitemap file: iterate over `parse_batches`, then look at `problem`."""

    def __init__(self, body: bytes, url: str, *, max_entries: int = MAX_ENTRIES, max_bytes: int = FILE_BYTES) -> None:
        self._body = body
        self._url = url
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: list[SitemapEntry] = []
        self.entry_count = 0
        self.bad_url_count = 0
        self.problem: str | None = None
        """Reason why reading stopped before the end of the file, if it did."""

    def parse_batches(self) -> Iterator[list[SitemapEntry]]:
        """Yield all entries in steps, so that the caller can let other tasks run in between."""
        feed: Callable[[bytes, bool], None] | None = None
        try:
            for step in self._read_steps():
                if feed is None:
                    first = step.removeprefix(_BOM)
                    feed = (
                        _XmlParser(self).feed if first.lstrip().startswith((b"<", *_UTF16)) else _LineParser(self).feed
                    )
                    feed(first, False)
                else:
                    feed(step, False)
                yield self._pop_entries()
            if feed is not None:
                feed(b"", True)
        except _StopReading as exc:
            self.problem = str(exc)
        except expat.ExpatError as exc:
            self.problem = f"broken: {exc}"
        yield self._pop_entries()

    def _pop_entries(self) -> list[SitemapEntry]:
        entries, self._entries = self._entries, []
        return entries

    def _read_steps(self) -> Iterator[bytes]:
        size = 0
        for step in _decompress_body(self._body) if self._body.startswith(_GZIP) else _split_body(self._body):
            size += len(step)
            if size > self._max_bytes:
                raise _StopReading(f"larger than {self._max_bytes:,} bytes: the rest is left out")
            yield step

    def add_entry(
        self, loc: str, changed: str = "", alternates: list[tuple[str, str]] | None = None, *, is_sitemap: bool = False
    ) -> None:
        if not (loc := loc.strip()):
            return
        # A single word would be parsed as a relative path: lines that are no URLs are not accepted.
        url = canonical_url(loc, self._url) if loc.startswith(("http", "HTTP", "/")) else None
        if url is None:
            self.bad_url_count += 1
            return
        if self.entry_count >= self._max_entries:
            raise _StopReading(f"more than {self._max_entries:,} entries: the others are left out")
        self.entry_count += 1
        others = [(language, canonical_url(href, self._url)) for language, href in alternates or ()]
        resolved = tuple((language, other) for language, other in others if other is not None)
        self._entries.append(SitemapEntry(url, parse_instant(changed), resolved, is_sitemap))


class _LineParser:
    def __init__(self, sitemap: Sitemap) -> None:
        self._sitemap = sitemap
        self._rest = b""

    def feed(self, data: bytes, is_end: bool) -> None:
        *lines, rest = (self._rest + data + (b"\n" if is_end else b"")).splitlines(keepends=True) or [b""]
        if rest.endswith((b"\n", b"\r")):
            lines, rest = [*lines, rest], b""
        for line in lines:
            self._sitemap.add_entry(line[: 4 * URL_CHARS].decode("utf-8", "replace"))
        # A line longer than this is no URL, whatever follows.
        self._rest = rest[: 4 * URL_CHARS]


class _XmlParser:
    def __init__(self, sitemap: Sitemap) -> None:
        self._sitemap = sitemap
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start_element
        self._parser.EndElementHandler = self._end_element
        self._parser.CharacterDataHandler = self._add_text
        self._parser.EntityDeclHandler = self._refuse_entity
        self._mends_ampersands: bool | None = None
        self._cut_reference = b""
        self._level = 0
        self._element_count = 0
        self._entry_level = 0
        """Nesting level of the entry that is being read; 0 outside of entries."""
        self._field: str | None = None
        self._fields: dict[str, str] = {}
        self._alternates: list[tuple[str, str]] = []

    def feed(self, data: bytes, is_end: bool) -> None:
        if self._mends_ampersands is None:
            self._mends_ampersands = not data.startswith(_UTF16)
        data = self._cut_reference + data
        # In CDATA sections ampersands stand for themselves: nothing may be mended.
        if b"<![CDATA[" in data:
            self._mends_ampersands = False
        self._cut_reference = b""
        if self._mends_ampersands:
            # A reference may be cut by the end of a step.
            cut = data.rfind(b"&", max(0, len(data) - _LONGEST_REFERENCE))
            if cut >= 0 and not is_end:
                data, self._cut_reference = data[:cut], data[cut:]
            data = _BARE_AMPERSAND.sub(b"&amp;", data)
        self._parser.Parse(data, is_end)

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._level += 1
        self._element_count += 1
        if self._level > MAX_NESTING:
            raise _StopReading(f"nested more than {MAX_NESTING} levels deep")
        if self._element_count > MAX_ELEMENTS:
            raise _StopReading(f"more than {MAX_ELEMENTS:,} elements: the rest is left out")
        match name.rpartition(":")[2]:
            case "url" | "sitemap":
                self._entry_level = self._level
                self._fields = {}
                self._alternates = []
            # Only direct children of the entry count: pictures and films in it have a loc of their own.
            case ("loc" | "lastmod") as field if self._level == self._entry_level + 1 and field not in self._fields:
                self._field = field
                self._fields[field] = ""
            case "link" if self._entry_level and len(self._alternates) < MAX_ALTERNATES and "hreflang" in attributes:
                self._alternates.append((attributes["hreflang"][:40], attributes.get("href", "")))

    def _add_text(self, text: str) -> None:
        if self._field is not None and len(self._fields[self._field]) <= URL_CHARS:
            self._fields[self._field] += text

    def _end_element(self, name: str) -> None:
        self._level -= 1
        self._field = None
        kind = name.rpartition(":")[2]
        if self._entry_level and kind in {"url", "sitemap"}:
            self._entry_level = 0
            loc, changed = self._fields.get("loc", ""), self._fields.get("lastmod", "")
            self._sitemap.add_entry(loc, changed, self._alternates, is_sitemap=kind == "sitemap")

    def _refuse_entity(self, *_: object) -> None:
        raise _StopReading("it declares entities, which are not expanded")


def parse_instant(text: str) -> datetime | None:
    """Parse a W3C date: a year, a month, a day, or an instant; without a zone it is taken for UTC."""
    text = text.strip()
    if not text:
        return None
    if re.fullmatch(r"[0-9]{4}(-[0-9]{2})?", text):
        text = f"{text}-01-01"[:10]
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _split_body(body: bytes) -> Iterator[bytes]:
    return (body[start : start + STEP_BYTES] for start in range(0, len(body), STEP_BYTES))


def _decompress_body(body: bytes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    data = body
    try:
        while data and not unpacker.eof:
            yield unpacker.decompress(data, STEP_BYTES)
            data = unpacker.unconsumed_tail
    except zlib.error as exc:
        raise _StopReading(f"cannot be unpacked: {exc}") from exc
    if not unpacker.eof:
        raise _StopReading("cannot be unpacked: it ends too early")
