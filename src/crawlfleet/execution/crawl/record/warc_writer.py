"""The WARC writer archives answers of sites as they came: records of WARC 1.1, each compressed by itself.

A page is a response with its request, or a revisit where an earlier page of this crawl had the same content. Bodies are
archived as they were read, without the encoding they had on the way: the headers about that encoding are renamed
(`X-Crawler-...`), as Common Crawl does it. Credentials are left out of requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from crawlfleet.execution.crawl.fetch.http_client import SiteResponse
from crawlfleet.wire.warc import Header, header_line, header_lines, write_record
from crawlfleet.wire.warc import content_digest as digest_of

PAGE_BYTES = 4_000_000
"""Limit on the size of one archived page; a longer one is cut there, and marked as truncated."""
CRAWL_BYTES = 2 << 30
"""Limit on the compressed size of one crawl's archive; pages beyond it are counted, not kept."""
DIGESTS = 20_000
"""Limit on digests of contents that are remembered for revisits."""
SAME = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
_SECRET = frozenset({"authorization", "proxy-authorization", "cookie"})
_RENAMED = frozenset({"content-encoding", "content-length", "transfer-encoding"})

Emit = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """One request and its answer."""

    url: str
    method: str
    request_headers: tuple[Header, ...]
    status: int
    reason: str
    response_headers: tuple[Header, ...]
    body: bytes


def make_exchange(url: str, response: SiteResponse, body: bytes) -> HttpExchange:
    return HttpExchange(
        url,
        "GET",
        tuple(response.request_headers.items()),
        response.status,
        response.reason or "",
        tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers),
        body,
    )


class Archive:
    """Archives the answers that a crawl received, within its limits."""

    def __init__(
        self,
        emit: Emit,
        *,
        page_bytes: int = PAGE_BYTES,
        crawl_bytes: int = CRAWL_BYTES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._emit = emit
        self._page_bytes = page_bytes
        self._left_bytes = crawl_bytes
        self._now = now
        self._first: dict[str, tuple[str, str]] = {}
        """URL and date of the page that had a content first, per digest."""
        self.pages = 0
        self.bytes = 0
        self.left_out = 0

    async def write_exchange(self, exchange: HttpExchange) -> None:
        if self._left_bytes <= 0:
            self.left_out += 1
            return
        # Compressing a page of megabytes in the event loop would hold up every other fetch.
        records = await asyncio.to_thread(self._make_records, exchange)
        self._left_bytes -= len(records)
        self.pages += 1
        self.bytes += len(records)
        await self._emit(records)

    def summary(self) -> dict[str, int]:
        return {"pages": self.pages, "bytes": self.bytes, "pages_left_out": self.left_out}

    def _make_records(self, exchange: HttpExchange) -> bytes:
        body = exchange.body[: self._page_bytes]
        date = self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        record_id = f"<urn:uuid:{uuid4()}>"
        digest = digest_of(body)
        head = _response_head(exchange, len(body))
        fields = [
            ("WARC-Record-ID", record_id),
            ("WARC-Date", date),
            ("WARC-Target-URI", exchange.url),
            ("WARC-Payload-Digest", digest),
            ("Content-Type", "application/http; msgtype=response"),
        ]
        # A page that was cut may differ from an equal one in the part that is missing.
        is_cut = len(body) < len(exchange.body)
        first_page = None if is_cut or not body else self._first.get(digest)
        if first_page is not None:
            fields += [
                ("WARC-Profile", SAME),
                ("WARC-Refers-To-Target-URI", first_page[0]),
                ("WARC-Refers-To-Date", first_page[1]),
            ]
            response_record = write_record("revisit", fields, head)
        else:
            if not is_cut and len(self._first) < DIGESTS:
                self._first[digest] = (exchange.url, date)
            if is_cut:
                fields.append(("WARC-Truncated", "length"))
            response_record = write_record("response", fields, head + body)
        request_fields = [
            ("WARC-Record-ID", f"<urn:uuid:{uuid4()}>"),
            ("WARC-Date", date),
            ("WARC-Target-URI", exchange.url),
            ("WARC-Concurrent-To", record_id),
            ("Content-Type", "application/http; msgtype=request"),
        ]
        return response_record + write_record("request", request_fields, _request_head(exchange))


def _response_head(exchange: HttpExchange, length: int) -> bytes:
    fields = [
        (f"X-Crawler-{name}" if name.lower() in _RENAMED else name, value) for name, value in exchange.response_headers
    ]
    fields.append(("Content-Length", str(length)))
    return header_line(f"HTTP/1.1 {exchange.status} {exchange.reason}") + header_lines(fields) + b"\r\n"


def _request_head(exchange: HttpExchange) -> bytes:
    _, _, rest = exchange.url.partition("://")
    path = f"/{rest.partition('/')[2]}" if "/" in rest else "/"
    fields = [(name, value) for name, value in exchange.request_headers if name.lower() not in _SECRET]
    return header_line(f"{exchange.method} {path} HTTP/1.1") + header_lines(fields) + b"\r\n"
