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
from crawlfleet.execution.crawl.fetch.address_guard import AddressGuard, GuardedResolver, plain_host
from crawlfleet.execution.crawl.fetch.connection_failures import FAILURES, of_connection
from crawlfleet.execution.crawl.fetch.connections import Connector
from crawlfleet.execution.crawl.fetch.cookies import CookieSession
from crawlfleet.execution.crawl.fetch.header_profiles import HeaderSets
from crawlfleet.execution.crawl.fetch.http_client import HttpClient, Way
from crawlfleet.execution.crawl.fetch.proxy_requests import ProxyDown, Through, basic, options
from crawlfleet.execution.crawl.fetch.responses import Answers, Fetched, Keep, Reads, Redirect, is_text
from crawlfleet.execution.crawl.frontier.urls import budget_host, origin_prefix, parse_origin
from crawlfleet.execution.page_failures import BY_STATUS, PageFailed
from crawlfleet.execution.process_state.proxy_pool import Proxy, ProxyWay
from crawlfleet.model.host_stats import error_place, record_answer

MAX_HOPS = 10
CONNECT_S = 10.0
TOTAL_S = 30.0
PAGE_BYTES = 10_000_000
WAYS_KEPT = 10_000


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
        proxies: ProxyWay | None = None,
        keep: Keep | None = None,
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
        self._answers = Answers(self._gate, meter, keep)
        self._through: Through | None = None
        self._ways: dict[tuple[str, Proxy | None], Way] = {}
        self._client: HttpClient | None = None

    @property
    def bytes_in(self) -> int:
        """Number of bytes of all bodies as they came over the wire."""
        return self._answers.bytes_in

    async def __aenter__(self) -> Self:
        resolver = GuardedResolver(self._resolver or ThreadedResolver(), self._guard)
        if self._proxies is not None:
            self._through = Through(self._proxies, self._guard, resolver)
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
        reads: Reads = is_text,
        conditions: Mapping[str, str] | None = None,
    ) -> Fetched:
        """Fetch a page that can be read. Raises PageFailed, or PageSkipped for an answer of another kind.

        With `conditions` (headers for exactly this URL) the answer may have the status 304, and no body.
        """
        return await self._follow(url, admit, self._limits.page_bytes, MAX_HOPS, reads, conditions)

    async def fetch_head(self, url: str, most_bytes: int, *, hops: int = MAX_HOPS) -> Fetched:
        """Fetch the beginning of a file of any type."""
        return await self._follow(url, None, most_bytes, hops, None)

    async def _follow(
        self,
        url: str,
        admit: Admit | None,
        most_bytes: int,
        hops: int,
        reads: Reads | None,
        conditions: Mapping[str, str] | None = None,
    ) -> Fetched:
        sets_cookie = False
        for number in range(hops + 1):
            if admit is not None:
                await admit(url, Hop(number, sets_cookie))
            turn = _Turn(budget_host(url), conditions=conditions or {})
            answer = await self._in_turn(url, turn, most_bytes, reads)
            if isinstance(answer, Fetched):
                return answer
            (url, sets_cookie), conditions = answer, None
        raise PageFailed("http", f"{url}: more than {hops} redirects", permanent=True, kind="redirects")

    async def _in_turn(self, url: str, turn: _Turn, most_bytes: int, reads: Reads | None) -> Fetched | Redirect:
        while True:
            if self._meter is not None and not turn.is_paid:
                # The page is taken before the request's turn: no request has to wait behind a crawl whose quota is used
                # up.
                await self._meter.page()
                turn.is_paid = True
            try:
                await self._gate.begin_request(turn.host)
                try:
                    return await self._ask(url, turn, most_bytes, reads)
                finally:
                    self._gate.end_request(turn.host)
            except (NoGrant, ProxyDown):
                continue
            except BaseException:
                if self._meter is not None and turn.is_paid:
                    self._meter.unsent()
                raise

    async def _depart(self, turn: _Turn) -> None:
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

    async def _ask(self, url: str, turn: _Turn, most_bytes: int, reads: Reads | None) -> Fetched | Redirect:
        """Send one request and return the page, or the redirect."""
        assert self._client is not None, "used as a context manager"
        began = time.monotonic()
        proxy = None
        figures = self._gate.host_counts(turn.host)
        try:
            if self._through is not None:
                self._guard.check_literal(*parse_origin(url)[1:])
                proxy = await self._through.proxy_for(url)
            way = self._way(url, proxy)
            answer = await self._client.get(way, url, turn.conditions, lambda: self._depart(turn))
            try:
                record_answer(figures, answer.status, time.monotonic() - turn.left_at)
                if self._through is not None and proxy is not None:
                    self._through.answered(proxy, answer.status, time.monotonic() - began)
                return await self._answers.read(url, answer, most_bytes, began, reads, figures)
            finally:
                answer.release()
        except FAILURES as exc:
            if self._through is not None and proxy is not None:
                self._through.check(url, proxy, exc)
            failure = of_connection(url, exc, self._limits.total_s)
            figures[error_place(failure.kind)] += 1
            raise failure from exc
        except PageFailed as exc:
            if exc.kind not in BY_STATUS:
                figures[error_place(exc.kind)] += 1
            if self._through is not None and exc.is_wall:
                self._through.blocked(url)
            raise

    def _way(self, url: str, proxy: Proxy | None) -> Way:
        """Return the way to the URL's origin, which is checked once: the same connections serve all of its URLs."""
        start = origin_prefix(url)
        way = self._ways.get((start, proxy))
        if way is None:
            if len(self._ways) >= WAYS_KEPT:
                self._ways.clear()
            way = self._ways[start, proxy] = self._new_way(start, url, proxy)
        return way

    def _new_way(self, start: str, url: str, proxy: Proxy | None) -> Way:
        assert self._client is not None, "used as a context manager"
        where, made = parse_origin(url), yarl.URL(start, encoded=True)
        self._guard.check_literal(where.host, where.port)
        if plain_host(made.raw_host or "") != plain_host(where.host) or made.port != where.port:
            raise PageFailed("input", f"{url}: its host can be read in two ways", permanent=True)
        headers, known = self._header_sets.of(where.origin), self._credentials.get(where.origin)
        if known is not None:
            headers = {**headers, "Authorization": basic(*known)}
        return self._client.way(start, options(url, headers, proxy))
