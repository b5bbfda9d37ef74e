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
from crawlfleet.execution.crawl.fetch.block_detection import LOOK_AT_BYTES, SUSPECT, detect_block_product
from crawlfleet.execution.crawl.fetch.body_decoder import BodyDecoder
from crawlfleet.execution.crawl.fetch.file_signatures import file_kind
from crawlfleet.execution.crawl.fetch.http_client import SiteResponse
from crawlfleet.execution.crawl.frontier.urls import budget_host, canonical_url
from crawlfleet.execution.crawl.record.warc_writer import HttpExchange, make_exchange
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

IsReadable = Callable[[str], bool]
"""Function that returns whether an answer of a content type is read as a page."""
RecordPage = Callable[[HttpExchange], Awaitable[None]]
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


def choose_readable_types(*, is_start: bool, has_json: bool) -> IsReadable:
    """Return which content types are read: JSON if the plan extracts from it, feeds and tables at start URLs."""
    is_textual = is_text if is_start else is_page
    if not has_json:
        return is_textual
    return lambda content_type: is_json(content_type) or is_textual(content_type)


class ResponseReader:
    def __init__(self, gate: HostGate, meter: QuotaMeter | None, record_page: RecordPage | None) -> None:
        self._gate = gate
        self._meter = meter
        self._record_page = record_page
        self.bytes_in = 0

    async def read_response(
        self,
        url: str,
        response: SiteResponse,
        max_bytes: int,
        began_at: float,
        is_readable: IsReadable | None,
        figures: list[int],
    ) -> Fetched | Redirect:
        """Read an answer. Raises PageFailed, and PageSkipped for an answer that is no page.

        `began` is the monotonic time of the request. Without `reads` the answer is a file of any type, of which the
        beginning is enough. Bytes and pages that are read are added to the `figures` of the host.
        """
        headers = response.headers
        if response.status in _REDIRECTS:
            return _parse_redirect(url, response)
        is_same = response.status == 304 and not _CONDITIONS.isdisjoint(response.request_headers)
        if not is_same and not 200 <= response.status < 300:
            raise await self._read_refusal(url, response, figures)
        content_type = response.content_type if headers.get("Content-Type", "").strip() else ""
        if is_readable is not None and not is_same and not is_readable(content_type):
            raise PageSkipped(f"{url}: {content_type} is not read")
        body = await self._read_body(url, response, max_bytes, figures, may_cut=is_readable is None)
        if is_readable is not None:
            self._check_page(url, response, body)
            figures[PAGES] += 1
            if self._record_page is not None and not is_same:
                await self._record_page(make_exchange(url, response, body))
        return Fetched(
            url,
            response.status,
            content_type,
            response.charset,
            body,
            headers.get("ETag", ""),
            headers.get("Last-Modified", ""),
            headers.get("Cache-Control", ""),
            tuple(headers.getall("X-Robots-Tag", ())),
            time.monotonic() - began_at,
        )

    def _check_page(self, url: str, response: SiteResponse, body: bytes) -> None:
        if (block_product := detect_block_product(response.status, response.headers, body)) is not None:
            self._gate.record_block(budget_host(url))
            raise refused_by_site(url, response.status, 0.0, block_product)
        if (kind := file_kind(body)) is not None:
            raise PageSkipped(f"{url}: {kind} by its bytes, no page")

    async def _read_refusal(self, url: str, response: SiteResponse, figures: list[int]) -> PageFailed:
        wait_s = retry_after_s(response.headers.get("Retry-After", ""))
        # The gate is informed first: other requests to the same host are about to leave.
        self._gate.record_answer(budget_host(url), response.status, wait_s)
        block_product = None
        if response.status in SUSPECT:
            block_product = detect_block_product(
                response.status, response.headers, await self._read_beginning(url, response, figures)
            )
        failure = refused_by_site(url, response.status, wait_s, block_product)
        if failure.is_block_page:
            self._gate.record_block(budget_host(url))
        return failure

    async def _read_beginning(self, url: str, response: SiteResponse, figures: list[int]) -> bytes:
        """Return the beginning of the body of a refusal; empty if it cannot be read in time."""
        try:
            async with asyncio.timeout(REFUSAL_S):
                return await self._read_body(url, response, LOOK_AT_BYTES, figures, may_cut=True)
        except (TimeoutError, aiohttp.ClientError, OSError, PageFailed):
            return b""

    async def _read_body(
        self, url: str, response: SiteResponse, max_bytes: int, figures: list[int], *, may_cut: bool
    ) -> bytes:
        headers = response.headers
        if (response.content_length or 0) > max_bytes and not may_cut:
            raise _too_large(url, max_bytes)
        unpacker = BodyDecoder(", ".join(headers.getall(_ENCODING)), url) if _ENCODING in headers else None
        parts: list[bytes] = []
        size = raw_bytes = 0
        while chunk := await self._read_chunk(response):
            raw_bytes += len(chunk)
            self.bytes_in += len(chunk)
            figures[BYTES] += len(chunk)
            for part in (chunk,) if unpacker is None else unpacker.feed(chunk):
                if part:
                    parts.append(part)
                size += len(part)
                # Compressed bytes count too: some streams never give any output.
                if max(size, raw_bytes) > max_bytes:
                    if may_cut:
                        return b"".join(parts)[:max_bytes]
                    raise _too_large(url, max_bytes)
                if len(parts) % 4 == 0:
                    await asyncio.sleep(0)
        if unpacker is not None:
            unpacker.finish()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _read_chunk(self, response: SiteResponse) -> bytes:
        """Return the received part of the body, and no more than the quota grants; empty at the end."""
        if self._meter is None:
            return await response.read_part()
        if response.is_read:
            return b""
        chunk = await response.read_at_most(await self._meter.room(CHUNK_BYTES))
        self._meter.read(len(chunk))
        return chunk


def _too_large(url: str, max_bytes: int) -> PageFailed:
    return PageFailed("parse", f"{url}: larger than {max_bytes:,} bytes", permanent=True, kind="too_large")


def _parse_redirect(url: str, response: SiteResponse) -> Redirect:
    target = canonical_url(response.headers.get("Location", ""), url) if "Location" in response.headers else None
    if target is None:
        raise PageFailed(
            "http", f"{url}: redirects to no page", permanent=True, status=response.status, kind="redirects"
        )
    sent_names = {pair.partition("=")[0].strip() for pair in response.request_headers.get("Cookie", "").split(";")}
    return Redirect(target, not response.cookie_names() <= sent_names)


def retry_after_s(value: str) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 without one, and at most a day."""
    try:
        return min(max(0.0, float(value)), RETRY_AFTER_MOST_S)
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0.0
    date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return min(max(0.0, (date - datetime.now(UTC)).total_seconds()), RETRY_AFTER_MOST_S)
