"""The fetcher gets one page over HTTP: it follows redirects, checks every hop, and applies limits while it streams.

A fetcher belongs to one execution: its connections and cookies are shared with no other.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

import yarl
from aiohttp.abc import AbstractResolver
from aiohttp.resolver import ThreadedResolver

from crawlfleet.execution.budget.host_gate import HostGate, NoGrant, OpenGate
from crawlfleet.execution.budget.quota_meter import QuotaMeter
from crawlfleet.execution.crawl.fetch.connection_failures import FAILURES, failure_from_exception
from crawlfleet.execution.crawl.fetch.connections import Connector
from crawlfleet.execution.crawl.fetch.cookies import CookieSession
from crawlfleet.execution.crawl.fetch.header_profiles import HeaderSets
from crawlfleet.execution.crawl.fetch.http_client import HttpClient, PreparedOrigin
from crawlfleet.execution.crawl.fetch.proxy_requests import (
    ProxyDown,
    ProxySelector,
    basic_credentials,
    make_request_options,
)
from crawlfleet.execution.crawl.fetch.responses import (
    Fetched,
    IsReadable,
    RecordPage,
    Redirect,
    ResponseReader,
    is_text,
)
from crawlfleet.execution.crawl.frontier.urls import budget_host, origin_prefix, parse_origin
from crawlfleet.execution.page_failures import BY_STATUS, PageFailed
from crawlfleet.execution.process_state.fetch_trace import FetchTrace, current_fetch_trace
from crawlfleet.execution.process_state.proxy_pool import Proxy, ProxyRotation
from crawlfleet.model.host_stats import error_place, record_answer
from crawlfleet.network.address_guard import AddressGuard, GuardedResolver, plain_host

MAX_HOPS = 10
CONNECT_S = 10.0
TOTAL_S = 30.0
PAGE_BYTES = 10_000_000
ORIGINS_KEPT = 10_000


class Hop(NamedTuple):
    """The position of a request in a chain of redirects."""

    number: int = 0
    """Number of redirects before the request."""
    sets_cookie: bool = False
    """Whether the redirect that led here set a cookie that was not sent to it."""


Admit = Callable[[str, Hop], Awaitable[None]]
"""Function that is called before each request, and raises to prevent it."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    connect_s: float = CONNECT_S
    total_s: float = TOTAL_S
    page_bytes: int = PAGE_BYTES


@dataclass(slots=True)
class _Turn:
    """The state of one request while it waits for a host and is sent."""

    host: str
    is_paid: bool = False
    """Whether a page of the quota was taken for the request and the request has not left yet."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    left_at: float = 0.0
    """Monotonic time at which the request left on its connection."""
    status: int = 0
    """Status of the answer; 0 without one."""


class Fetcher:
    def __init__(
        self,
        guard: AddressGuard,
        *,
        user_agent: str,
        limits: FetchLimits | None = None,
        resolver: AbstractResolver | None = None,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        gate: HostGate | None = None,
        meter: QuotaMeter | None = None,
        headers: HeaderSets | None = None,
        proxies: ProxyRotation | None = None,
        record_page: RecordPage | None = None,
        cookies: CookieSession | None = None,
    ) -> None:
        self._guard = guard
        self._header_sets = headers or HeaderSets(user_agent=user_agent)
        self._proxies = proxies
        self._cookies = cookies
        self._limits = limits or FetchLimits()
        self._resolver = resolver
        self._credentials = dict(credentials or {})
        self._gate: HostGate = gate or OpenGate()
        self._meter = meter
        self._response_reader = ResponseReader(self._gate, meter, record_page)
        self._proxy_selector: ProxySelector | None = None
        self._prepared_origins: dict[tuple[str, Proxy | None], PreparedOrigin] = {}
        self._client: HttpClient | None = None

    @property
    def bytes_in(self) -> int:
        """Number of bytes of all bodies as they came over the wire."""
        return self._response_reader.bytes_in

    async def __aenter__(self) -> Self:
        resolver = GuardedResolver(self._resolver or ThreadedResolver(), self._guard)
        if self._proxies is not None:
            self._proxy_selector = ProxySelector(self._proxies, self._guard, resolver)
        connector = Connector(resolver=resolver, socket_factory=self._guard.open_socket, ttl_dns_cache=60, limit=0)
        self._client = HttpClient(
            connector, connect_s=self._limits.connect_s, total_s=self._limits.total_s, cookies=self._cookies
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def fetch(
        self,
        url: str,
        *,
        admit: Admit | None = None,
        is_readable: IsReadable = is_text,
        conditions: Mapping[str, str] | None = None,
    ) -> Fetched:
        """Fetch a page that can be read. Raises PageFailed, or PageSkipped for an answer of another kind.

        With `conditions` (headers for exactly this URL) the answer may have the status 304, and no body.
        """
        return await self._follow_redirects(url, admit, self._limits.page_bytes, MAX_HOPS, is_readable, conditions)

    async def fetch_head(self, url: str, max_bytes: int, *, hops: int = MAX_HOPS) -> Fetched:
        """Fetch the beginning of a file of any type."""
        return await self._follow_redirects(url, None, max_bytes, hops, None)

    async def _follow_redirects(
        self,
        url: str,
        admit: Admit | None,
        max_bytes: int,
        hops: int,
        is_readable: IsReadable | None,
        conditions: Mapping[str, str] | None = None,
    ) -> Fetched:
        sets_cookie = False
        for number in range(hops + 1):
            if admit is not None:
                await admit(url, Hop(number, sets_cookie))
            turn = _Turn(budget_host(url), conditions=conditions or {})
            response = await self._send_in_turn(url, turn, max_bytes, is_readable)
            if isinstance(response, Fetched):
                return response
            (url, sets_cookie), conditions = response, None
        raise PageFailed("http", f"{url}: more than {hops} redirects", permanent=True, kind="redirects")

    async def _send_in_turn(
        self, url: str, turn: _Turn, max_bytes: int, is_readable: IsReadable | None
    ) -> Fetched | Redirect:
        while True:
            if self._meter is not None and not turn.is_paid:
                # The page is taken before the request's turn: no request has to wait behind a crawl whose quota is used
                # up.
                await self._meter.page()
                turn.is_paid = True
            try:
                await self._gate.begin_request(turn.host)
                try:
                    if (trace := current_fetch_trace()) is not None:
                        return await self._send_traced(url, turn, max_bytes, is_readable, trace)
                    return await self._send_request(url, turn, max_bytes, is_readable)
                finally:
                    self._gate.end_request(turn.host)
            except (NoGrant, ProxyDown):
                continue
            except BaseException:
                if self._meter is not None and turn.is_paid:
                    self._meter.unsent()
                raise

    async def _send_traced(
        self, url: str, turn: _Turn, max_bytes: int, is_readable: IsReadable | None, trace: FetchTrace
    ) -> Fetched | Redirect:
        """Send a request and record it."""
        began_ns, error = time.time_ns(), ""
        try:
            return await self._send_request(url, turn, max_bytes, is_readable)
        except PageFailed as exc:
            error = exc.kind
            raise
        except BaseException as exc:
            error = type(exc).__name__
            raise
        finally:
            trace.add(url, began_ns, turn.status, error)

    async def _await_departure(self, turn: _Turn) -> None:
        """Check once more right before a request leaves.

        Since its turn began a connection was made, or the whole process stood still.
        """
        await self._gate.await_departure(turn.host, is_repeat=turn.left_at > 0)
        if self._meter is not None:
            if not turn.is_paid:
                # The client repeats a request by itself when a kept connection turns out to be closed.
                await self._meter.page()
            turn.is_paid = False
        turn.left_at = time.monotonic()

    async def _send_request(
        self, url: str, turn: _Turn, max_bytes: int, is_readable: IsReadable | None
    ) -> Fetched | Redirect:
        """Send one request and return the page, or the redirect."""
        assert self._client is not None, "used as a context manager"
        began_at = time.monotonic()
        proxy = None
        figures = self._gate.host_counts(turn.host)
        try:
            if self._proxy_selector is not None:
                self._guard.check_literal(*parse_origin(url)[1:])
                proxy = await self._proxy_selector.proxy_for(url)
            prepared = self._get_prepared(url, proxy)
            response = await self._client.get(prepared, url, turn.conditions, lambda: self._await_departure(turn))
            try:
                turn.status = response.status
                record_answer(figures, response.status, time.monotonic() - turn.left_at)
                if self._proxy_selector is not None and proxy is not None:
                    self._proxy_selector.note_answer(proxy, response.status, time.monotonic() - began_at)
                return await self._response_reader.read_response(
                    url, response, max_bytes, began_at, is_readable, figures
                )
            finally:
                response.release()
        except FAILURES as exc:
            if self._proxy_selector is not None and proxy is not None:
                self._proxy_selector.check_failure(url, proxy, exc)
            failure = failure_from_exception(url, exc, self._limits.total_s)
            figures[error_place(failure.kind)] += 1
            raise failure from exc
        except PageFailed as exc:
            if exc.kind not in BY_STATUS:
                figures[error_place(exc.kind)] += 1
            if self._proxy_selector is not None and exc.is_block_page:
                self._proxy_selector.note_block(url)
            raise

    def _get_prepared(self, url: str, proxy: Proxy | None) -> PreparedOrigin:
        """Return the way to the URL's origin, which is checked once: the same connections serve all of its URLs."""
        start = origin_prefix(url)
        prepared = self._prepared_origins.get((start, proxy))
        if prepared is None:
            if len(self._prepared_origins) >= ORIGINS_KEPT:
                self._prepared_origins.clear()
            prepared = self._prepared_origins[start, proxy] = self._prepare_origin(start, url, proxy)
        return prepared

    def _prepare_origin(self, start: str, url: str, proxy: Proxy | None) -> PreparedOrigin:
        assert self._client is not None, "used as a context manager"
        origin, parsed = parse_origin(url), yarl.URL(start, encoded=True)
        self._guard.check_literal(origin.host, origin.port)
        if plain_host(parsed.raw_host or "") != plain_host(origin.host) or parsed.port != origin.port:
            raise PageFailed("input", f"{url}: its host can be read in two ways", permanent=True)
        headers, login = self._header_sets.headers_for(origin.origin), self._credentials.get(origin.origin)
        if login is not None:
            headers = {**headers, "Authorization": basic_credentials(*login)}
        return self._client.prepare_origin(start, make_request_options(url, headers, proxy))
