"""One page over HTTP: every redirect followed here, every hop checked, everything bounded while it streams.

A fetcher belongs to one execution: its connections and cookies are shared with nobody.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import SimpleNamespace, TracebackType
from typing import Self

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver
from aiohttp.resolver import ThreadedResolver

from crawlfleet.execution.crawl.addresses import AddressGuard, AddressRefused, GuardedResolver, plain_host
from crawlfleet.execution.crawl.body import ENCODINGS, Unpacker
from crawlfleet.execution.crawl.failures import PageFailed, PageSkipped, refused_by_site
from crawlfleet.execution.crawl.gate import Gate, NoGrant, OpenGate
from crawlfleet.execution.crawl.links import canonical, place, target_of
from crawlfleet.execution.crawl.meter import Meter

MAX_HOPS = 10
CONNECT_S = 10.0
TOTAL_S = 30.0
PAGE_BYTES = 10_000_000
MAX_COOKIES = 300
RETRY_AFTER_MOST_S = 86_400.0
CHUNK_BYTES = 64 << 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,text/*;q=0.8,*/*;q=0.1"

Admit = Callable[[str, int], Awaitable[None]]
"""Asked before each request with its URL and the number of hops before it; raises to stop there."""


@dataclass(frozen=True, slots=True)
class Fetched:
    url: str
    """Where the redirects ended."""
    status: int
    content_type: str
    charset: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class FetchLimits:
    connect_s: float = CONNECT_S
    total_s: float = TOTAL_S
    page_bytes: int = PAGE_BYTES


def is_readable(content_type: str) -> bool:
    """Whether pages of a type are read at all; a page without a type is taken for HTML, as browsers do."""
    return (
        not content_type
        or content_type.startswith("text/")
        or content_type == "application/xml"
        or content_type.endswith("+xml")
    )


@dataclass(slots=True)
class _Turn:
    """One request's turn at a host."""

    host: str
    is_paid: bool = False
    """A page was taken for it, and it has not left yet."""


class Fetcher:
    def __init__(
        self,
        guard: AddressGuard,
        *,
        user_agent: str,
        limits: FetchLimits | None = None,
        resolver: AbstractResolver | None = None,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        gate: Gate | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._guard = guard
        self._user_agent = user_agent
        self._limits = limits or FetchLimits()
        self._resolver = resolver
        self._credentials = dict(credentials or {})
        self._gate: Gate = gate or OpenGate()
        self._meter = meter
        self._session: aiohttp.ClientSession | None = None
        self.bytes_in = 0
        """Of bodies, as they came over the wire."""

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(self._resolver or ThreadedResolver(), self._guard),
            socket_factory=self._guard.open_socket,
            ttl_dns_cache=60,
            limit=0,
        )
        # A total per page: a body that drips a byte a second never runs into a limit per read.
        timeout = aiohttp.ClientTimeout(total=self._limits.total_s, sock_connect=self._limits.connect_s)
        headers = {"User-Agent": self._user_agent, "Accept": _ACCEPT, "Accept-Encoding": ENCODINGS}
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            headers=headers,
            auto_decompress=False,
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            trace_configs=[self._last_look()],
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch(self, url: str, *, admit: Admit | None = None) -> Fetched:
        """A page that can be read. Raises PageFailed, or PageSkipped for one of another kind."""
        return await self._follow(url, admit, self._limits.page_bytes, is_page=True)

    async def fetch_head(self, url: str, most_bytes: int) -> Fetched:
        """The beginning of a file of any type."""
        return await self._follow(url, None, most_bytes, is_page=False)

    async def _follow(self, url: str, admit: Admit | None, most_bytes: int, *, is_page: bool) -> Fetched:
        for hop in range(MAX_HOPS + 1):
            if admit is not None:
                await admit(url, hop)
            answer = await self._in_turn(url, most_bytes, is_page=is_page)
            if isinstance(answer, Fetched):
                return answer
            url = answer
        raise PageFailed("http", f"{url}: more than {MAX_HOPS} redirects", permanent=True)

    async def _in_turn(self, url: str, most_bytes: int, *, is_page: bool) -> Fetched | str:
        turn = _Turn(target_of(url))
        while True:
            if self._meter is not None and not turn.is_paid:
                # Before its turn: nobody has to wait behind a crawl that has no page left.
                await self._meter.page()
                turn.is_paid = True
            try:
                await self._gate.begin(turn.host)
                try:
                    return await self._ask(url, turn, most_bytes, is_page=is_page)
                finally:
                    self._gate.end(turn.host)
            except NoGrant:
                continue
            except BaseException:
                if self._meter is not None and turn.is_paid:
                    self._meter.unsent()
                raise

    def _last_look(self) -> aiohttp.TraceConfig:
        """Between a turn and its request a connection is made, or the whole process stood still."""
        trace = aiohttp.TraceConfig()

        async def look(_session: aiohttp.ClientSession, context: SimpleNamespace, _: object) -> None:
            turn: _Turn = context.trace_request_ctx
            self._gate.check(turn.host)
            if self._meter is not None:
                if not turn.is_paid:
                    # The client asks once more by itself when a kept connection turns out to be closed.
                    await self._meter.page()
                turn.is_paid = False

        trace.on_connection_create_end.append(look)
        trace.on_connection_reuseconn.append(look)
        return trace

    async def _ask(self, url: str, turn: _Turn, most_bytes: int, *, is_page: bool) -> Fetched | str:
        """One request: the page, or where it redirects to."""
        assert self._session is not None, "used as a context manager"
        try:
            async with self._session.get(
                self._checked(url), allow_redirects=False, headers=self._headers(url), trace_request_ctx=turn
            ) as response:
                if len(self._session.cookie_jar) > MAX_COOKIES:
                    self._session.cookie_jar.clear()
                return await self._answer(url, response, most_bytes, is_page=is_page)
        except AddressRefused as exc:
            raise PageFailed("policy", f"{url}: {exc}", permanent=True) from exc
        except TimeoutError as exc:
            raise PageFailed("timeout", f"{url}: no answer within {self._limits.total_s:g} s") from exc
        except aiohttp.InvalidURL as exc:
            raise PageFailed("input", f"{url}: not a URL", permanent=True) from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            # ValueError: what a server sends as headers is not always HTTP.
            raise PageFailed("network", f"{url}: {str(exc) or type(exc).__name__}") from exc

    async def _answer(
        self, url: str, response: aiohttp.ClientResponse, most_bytes: int, *, is_page: bool
    ) -> Fetched | str:
        if response.status in _REDIRECTS:
            target = canonical(response.headers.get("Location", ""), url) if "Location" in response.headers else None
            if target is None:
                raise PageFailed("http", f"{url}: redirects to no page", permanent=True, status=response.status)
            return target
        if not 200 <= response.status < 300:
            wait_s = retry_after_s(response.headers.get("Retry-After", ""))
            self._gate.answered(target_of(url), response.status, wait_s)
            raise refused_by_site(url, response.status, wait_s)
        content_type = response.content_type if "Content-Type" in response.headers else ""
        if is_page and not is_readable(content_type):
            raise PageSkipped(f"{url}: {content_type} is not read")
        body = await self._body(url, response, most_bytes, may_cut=not is_page)
        return Fetched(url, response.status, content_type, response.charset, body)

    async def _body(self, url: str, response: aiohttp.ClientResponse, most: int, *, may_cut: bool) -> bytes:
        too_large = PageFailed("parse", f"{url}: larger than {most:,} bytes", permanent=True)
        if (response.content_length or 0) > most and not may_cut:
            raise too_large
        unpacker = Unpacker(response.headers.get("Content-Encoding", ""))
        parts: list[bytes] = []
        size = raw = 0
        async for chunk in self._chunks(response.content):
            raw += len(chunk)
            self.bytes_in += len(chunk)
            for part in unpacker.feed(chunk):
                if part:
                    parts.append(part)
                size += len(part)
                # Packed bytes count too: there are streams that never unpack to anything.
                if max(size, raw) > most:
                    if may_cut:
                        return b"".join(parts)[:most]
                    raise too_large
                if len(parts) % 4 == 0:
                    await asyncio.sleep(0)
        unpacker.finish()
        return b"".join(parts)

    def _chunks(self, content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        return content.iter_any() if self._meter is None else _metered(content, self._meter)

    def _checked(self, url: str) -> yarl.URL:
        """The URL for the client, if both of us read the same host in it and that may be asked."""
        host, port = place(url)[1:]
        self._guard.check_literal(host, port)
        made = yarl.URL(url, encoded=True)
        if plain_host(made.raw_host or "") != plain_host(host) or made.port != port:
            raise PageFailed("input", f"{url}: its host can be read in two ways", permanent=True)
        return made

    def _headers(self, url: str) -> dict[str, str]:
        known = self._credentials.get(place(url).origin)
        return {} if known is None else {"Authorization": f"Basic {b64encode(':'.join(known).encode()).decode()}"}


async def _metered(content: aiohttp.StreamReader, meter: Meter) -> AsyncIterator[bytes]:
    """No more than was granted is read."""
    while not content.at_eof():
        chunk = await content.read(await meter.room(CHUNK_BYTES))
        meter.read(len(chunk))
        if chunk:
            yield chunk


def retry_after_s(value: str) -> float:
    """Seconds of a Retry-After header, which is a number or a date; 0 for none, and a day for more than that."""
    try:
        return min(max(0.0, float(value)), RETRY_AFTER_MOST_S)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max(0.0, (at - datetime.now(UTC)).total_seconds()), RETRY_AFTER_MOST_S)
