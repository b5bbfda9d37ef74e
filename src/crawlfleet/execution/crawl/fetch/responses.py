"""Responses of sites: a page, a redirect or a refusal, read as it streams and reported to the host gate at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import aiohttp
import msgspec

from crawlfleet.execution.budget.host_gate import HostGate
from crawlfleet.execution.budget.quota_meter import QuotaMeter
from crawlfleet.execution.crawl.fetch.block_detection import LOOK_AT_BYTES, SUSPECT, wall_of
from crawlfleet.execution.crawl.fetch.body_decoder import Unpacker
from crawlfleet.execution.crawl.fetch.file_signatures import file_kind
from crawlfleet.execution.crawl.fetch.http_client import Answer
from crawlfleet.execution.crawl.frontier.urls import budget_host, canonical_url
from crawlfleet.execution.crawl.record.warc_writer import Exchange, exchange_of
from crawlfleet.execution.page_failures import PageFailed, PageSkipped, refused_by_site
from crawlfleet.model.host_stats import BYTES, PAGES

RETRY_AFTER_MOST_S = 86_400.0
CHUNK_BYTES = 64 << 10
REFUSAL_S = 2.0
"""Seconds that reading the body of a refusal may take: it only shows which product blocks."""
_CONDITIONS = frozenset({"If-None-Match", "If-Modified-Since"})
_ENCODING = "Content-Encoding"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PAGES = frozenset({"", "text/html", "application/xhtml+xml", "text/plain", "text/xml", "application/xml"})

Reads = Callable[[str], bool]
"""Function that returns whether an answer of a content type is read as a page."""
Keep = Callable[[Exchange], Awaitable[None]]
"""Function that records pages as they came (WARC)."""


class Fetched(msgspec.Struct, frozen=True):
    url: str
    """URL at which the redirects ended."""
    status: int
    content_type: str
    charset: str | None
    body: bytes
    etag: str = ""
    last_modified: str = ""
    cache_control: str = ""
    robots_tags: tuple[str, ...] = ()
    """Values of the X-Robots-Tag headers."""
    took_s: float = 0.0


class Redirect(NamedTuple):
    url: str
    sets_cookie: bool
    """Whether the redirect sets a cookie that was not sent with the request."""


def is_page(content_type: str) -> bool:
    """Return whether a content type is one of pages; a page without a type is taken for HTML, as browsers do."""
    return content_type in _PAGES


def is_text(content_type: str) -> bool:
    """Return whether a content type can be read as a page at a start URL: feeds and tables have no other parser."""
    return (
        not content_type
        or content_type.startswith("text/")
        or content_type == "application/xml"
        or content_type.endswith("+xml")
    )


def is_json(content_type: str) -> bool:
    return content_type.endswith(("/json", "+json"))


class Answers:
    def __init__(self, gate: HostGate, meter: QuotaMeter | None, keep: Keep | None) -> None:
        self._gate = gate
        self._meter = meter
        self._keep = keep
        self.bytes_in = 0

    async def read(
        self,
        url: str,
        answer: Answer,
        most_bytes: int,
        began: float,
        reads: Reads | None,
        figures: list[int],
    ) -> Fetched | Redirect:
        """Read an answer. Raises PageFailed, and PageSkipped for an answer that is no page.

        `began` is the monotonic time of the request. Without `reads` the answer is a file of any type, of which the
        beginning is enough. Bytes and pages that are read are added to the `figures` of the host.
        """
        headers = answer.headers
        if answer.status in _REDIRECTS:
            return _redirect(url, answer)
        is_same = answer.status == 304 and not _CONDITIONS.isdisjoint(answer.asked)
        if not is_same and not 200 <= answer.status < 300:
            raise await self._refusal(url, answer, figures)
        content_type = answer.content_type if headers.get("Content-Type", "").strip() else ""
        if reads is not None and not is_same and not reads(content_type):
            raise PageSkipped(f"{url}: {content_type} is not read")
        body = await self._body(url, answer, most_bytes, figures, may_cut=reads is None)
        if reads is not None:
            self._check_page(url, answer, body)
            figures[PAGES] += 1
            if self._keep is not None and not is_same:
                await self._keep(exchange_of(url, answer, body))
        return Fetched(
            url,
            answer.status,
            content_type,
            answer.charset,
            body,
            headers.get("ETag", ""),
            headers.get("Last-Modified", ""),
            headers.get("Cache-Control", ""),
            tuple(headers.getall("X-Robots-Tag", ())),
            time.monotonic() - began,
        )

    def _check_page(self, url: str, answer: Answer, body: bytes) -> None:
        if (wall := wall_of(answer.status, answer.headers, body)) is not None:
            self._gate.record_block(budget_host(url))
            raise refused_by_site(url, answer.status, 0.0, wall)
        if (kind := file_kind(body)) is not None:
            raise PageSkipped(f"{url}: {kind} by its bytes, no page")

    async def _refusal(self, url: str, answer: Answer, figures: list[int]) -> PageFailed:
        wait_s = retry_after_s(answer.headers.get("Retry-After", ""))
        # The gate is informed first: other requests to the same host are about to leave.
        self._gate.record_answer(budget_host(url), answer.status, wait_s)
        wall = None
        if answer.status in SUSPECT:
            wall = wall_of(answer.status, answer.headers, await self._beginning(url, answer, figures))
        failure = refused_by_site(url, answer.status, wait_s, wall)
        if failure.is_wall:
            self._gate.record_block(budget_host(url))
        return failure

    async def _beginning(self, url: str, answer: Answer, figures: list[int]) -> bytes:
        """Return the beginning of the body of a refusal; empty if it cannot be read in time."""
        try:
            async with asyncio.timeout(REFUSAL_S):
                return await self._body(url, answer, LOOK_AT_BYTES, figures, may_cut=True)
        except (TimeoutError, aiohttp.ClientError, OSError, PageFailed):
            return b""

    async def _body(self, url: str, answer: Answer, most: int, figures: list[int], *, may_cut: bool) -> bytes:
        headers = answer.headers
        if (answer.content_length or 0) > most and not may_cut:
            raise _too_large(url, most)
        unpacker = Unpacker(", ".join(headers.getall(_ENCODING)), url) if _ENCODING in headers else None
        parts: list[bytes] = []
        size = raw = 0
        while chunk := await self._chunk(answer):
            raw += len(chunk)
            self.bytes_in += len(chunk)
            figures[BYTES] += len(chunk)
            for part in (chunk,) if unpacker is None else unpacker.feed(chunk):
                if part:
                    parts.append(part)
                size += len(part)
                # Compressed bytes count too: some streams never give any output.
                if max(size, raw) > most:
                    if may_cut:
                        return b"".join(parts)[:most]
                    raise _too_large(url, most)
                if len(parts) % 4 == 0:
                    await asyncio.sleep(0)
        if unpacker is not None:
            unpacker.finish()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _chunk(self, answer: Answer) -> bytes:
        """Return the received part of the body, and no more than the quota grants; empty at the end."""
        if self._meter is None:
            return await answer.chunk()
        if answer.is_read:
            return b""
        chunk = await answer.at_most(await self._meter.room(CHUNK_BYTES))
        self._meter.read(len(chunk))
        return chunk


def _too_large(url: str, most: int) -> PageFailed:
    return PageFailed("parse", f"{url}: larger than {most:,} bytes", permanent=True, kind="too_large")


def _redirect(url: str, answer: Answer) -> Redirect:
    target = canonical_url(answer.headers.get("Location", ""), url) if "Location" in answer.headers else None
    if target is None:
        raise PageFailed("http", f"{url}: redirects to no page", permanent=True, status=answer.status, kind="redirects")
    sent = {pair.partition("=")[0].strip() for pair in answer.asked.get("Cookie", "").split(";")}
    return Redirect(target, not answer.cookie_names() <= sent)


def retry_after_s(value: str) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 without one, and at most a day."""
    try:
        return min(max(0.0, float(value)), RETRY_AFTER_MOST_S)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0.0
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max(0.0, (at - datetime.now(UTC)).total_seconds()), RETRY_AFTER_MOST_S)
