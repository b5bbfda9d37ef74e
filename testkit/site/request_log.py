"""The request log of the site: the most recent requests, with client and time, and figures of them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from crawlfleet.demo_shop.http_messages import Request

REQUESTS_KEPT = 50_000
OF_INTEREST = (
    "accept-encoding",
    "accept-language",
    "authorization",
    "connection",
    "cookie",
    "if-modified-since",
    "if-none-match",
    "proxy-authorization",
    "range",
    "referer",
    "via",
    "x-forwarded-for",
)
_VALUE_CHARS = 500


class LoggedRequest(NamedTuple):
    """One request in the log."""

    at: float
    """Time by the monotonic clock, which all processes of a machine share."""
    at_ms: int
    """Time by the wall clock, since 1970."""
    method: str
    path: str
    """Path with the query."""
    agent: str
    host: str
    address: str
    port: int
    """Port of the client: one per connection."""
    headers: dict[str, str]
    """Headers of interest only, cut where they are long."""


class RequestLog:
    """The most recent requests to the site."""

    def __init__(self, max_requests: int = REQUESTS_KEPT) -> None:
        self.requests: deque[LoggedRequest] = deque(maxlen=max_requests)
        """Most recent requests, oldest first."""
        self.total = 0
        """Number of requests since the start, or since the log was cleared; also those that are no longer kept."""

    def note(self, request: Request) -> None:
        headers = request.headers
        noted_headers = {name: headers[name][:_VALUE_CHARS] for name in OF_INTEREST if name in headers}
        self.total += 1
        self.requests.append(
            LoggedRequest(
                time.monotonic(),
                time.time_ns() // 1_000_000,
                request.method,
                request.target,
                headers.get("user-agent", ""),
                request.host,
                *request.client,
                noted_headers,
            )
        )

    def clear(self) -> None:
        self.requests.clear()
        self.total = 0

    def select(
        self,
        *,
        under: str = "",
        host: str | None = None,
        since: float = 0.0,
    ) -> Iterator[LoggedRequest]:
        """Yield the requests whose path begins with `under`, for one host name, after a monotonic instant."""
        # A copy, made in one step: a test may read from another thread.
        for request in tuple(self.requests):
            if request.at > since and request.path.startswith(under) and host in {None, request.host}:
                yield request

    def paths(self, **which: Any) -> list[str]:
        return [request.path for request in self.select(**which)]

    def most_in(self, seconds: float = 1.0, **which: Any) -> int:
        """Return the largest number of requests in any sliding window of this length."""
        return most_in((request.at for request in self.select(**which)), seconds)

    def duplicates(self, **which: Any) -> dict[str, int]:
        """Return what was requested more than once, and how often, by host and path."""
        counts = Counter(f"{request.host}{request.path}" for request in self.select(**which))
        return {page: count for page, count in counts.items() if count > 1}

    def visitors(self, **which: Any) -> dict[tuple[str, str], int]:
        """Return the number of requests by address and user agent."""
        return dict(Counter((request.address, request.agent) for request in self.select(**which)))

    def connections(self, **which: Any) -> dict[tuple[str, int], int]:
        """Return the number of requests by address and port of the client: how well connections were reused."""
        return dict(Counter((request.address, request.port) for request in self.select(**which)))


def most_in(instants: Iterable[float], seconds: float = 1.0) -> int:
    window: deque[float] = deque()
    largest = 0
    for instant in instants:
        window.append(instant)
        while instant - window[0] > seconds:
            window.popleft()
        largest = max(largest, len(window))
    return largest
