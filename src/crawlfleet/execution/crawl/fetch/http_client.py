"""The HTTP client sends requests to sites over connections that aiohttp makes and keeps, without its session.

A crawl sends thousands of almost equal requests. What all pages of an origin have in common is made once (a
`PreparedOrigin`); a request is then its path between two pieces of bytes. The session would make all of it anew for
every page, which takes longer than to send it. For a site with cookies, or a request with conditions, the headers are
made per request.

A request is bounded in time as a whole, from the connection to the last byte of the answer: a body that sends a byte a
second never runs into a limit per read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import BaseCookie
from typing import NamedTuple

import aiohttp
import yarl
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.helpers import HeadersMixin
from multidict import CIMultiDict, CIMultiDictProxy

from crawlfleet.execution.crawl.fetch.body_decoder import ENCODINGS
from crawlfleet.execution.crawl.fetch.connections import Connector, NotHttp, SiteConnection
from crawlfleet.execution.crawl.fetch.cookies import CookieSession

_TARGET = re.compile(r"[!-~]+")
_BROKEN = re.compile(r"[\r\n\0]")

AwaitDeparture = Callable[[], Awaitable[None]]
"""Function that returns when a request may leave on the established connection, and raises to prevent it."""


class RequestOptions(NamedTuple):
    """The headers and the proxy for requests to an origin."""

    headers: Mapping[str, str]
    proxy: str | None = None
    proxy_headers: Mapping[str, str] | None = None


class PreparedOrigin(NamedTuple):
    """The prepared requests to the pages of one origin."""

    start: str
    """Scheme, host and port, as they stand in the URLs of the origin."""
    options: RequestOptions
    request: aiohttp.ClientRequest
    """Request that aiohttp's connector needs to make a connection."""
    key: ConnectionKey
    """Key under which connections to the origin are kept."""
    tail: bytes
    """Bytes of a request that follow its path."""
    is_absolute: bool
    """Whether requests carry the whole URL, as a proxy expects it."""


class SiteResponse(HeadersMixin):
    """An answer whose body is still to be read; call `release` when no more of it is needed."""

    def __init__(self, connection: Connection, site: SiteConnection, request_headers: CIMultiDict[str]) -> None:
        self.status = site.status
        self.raw_headers = site.fields
        self._reason = site.reason
        self.request_headers = request_headers
        """Headers of the request that this answers."""
        # The mixin reads the headers under this name.
        self._headers = self.headers = CIMultiDictProxy(
            CIMultiDict(
                [
                    (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape"))
                    for name, value in site.fields
                ]
            )
        )
        self._connection = connection
        self._site = site
        self.read_part = site.read_part
        """Function that returns the received part of the body, or waits for the next one; empty at its end."""

    @property
    def reason(self) -> str:
        return self._reason.decode("utf-8", "surrogateescape")

    async def read_at_most(self, max_bytes: int) -> bytes:
        """Return the next part of the body, and at most `most` bytes of it."""
        part = await self._site.read_part()
        if len(part) > max_bytes:
            self._site.put_back(part[max_bytes:])
            part = part[:max_bytes]
        return part

    @property
    def is_read(self) -> bool:
        return self._site.is_read

    def cookie_names(self) -> set[str]:
        """Return the names of the cookies that the answer sets."""
        return {header.partition(";")[0].partition("=")[0].strip() for header in self.headers.getall("Set-Cookie", ())}

    def release(self) -> None:
        """Keep the connection for the next request if the whole answer has arrived; else close it."""
        self._site.end_exchange()
        self._connection.release()


class HttpClient:
    def __init__(
        self, connector: Connector, *, connect_s: float, total_s: float, cookies: CookieSession | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connector = connector
        self._total_s = total_s
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        self._cookies = CookieSession() if cookies is None else cookies

    async def close(self) -> None:
        await self._connector.close()

    def prepare_origin(self, start: str, options: RequestOptions) -> PreparedOrigin:
        request = self._make_request(start, options)
        proxy = options.proxy
        is_absolute = proxy is not None and not request.is_ssl()
        return PreparedOrigin(
            start, options, request, request.connection_key, _encode_tail(request.headers), is_absolute
        )

    async def get(
        self, prepared: PreparedOrigin, url: str, conditions: Mapping[str, str], await_departure: AwaitDeparture
    ) -> SiteResponse:
        """Return the answer once its head has arrived. Raises as aiohttp does, TimeoutError when it takes too long."""
        target = url if prepared.is_absolute else url[len(prepared.start) :] or "/"
        if not url.startswith(prepared.start) or not _TARGET.fullmatch(target):
            raise aiohttp.InvalidURL(url)
        request_headers, tail = prepared.request.headers, prepared.tail
        if conditions or self._cookies:
            request_headers = self._make_request(
                url, prepared.options, conditions, self._cookies.cookies_for(url)
            ).headers
            tail = _encode_tail(request_headers)
        request = b"GET %b%b" % (target.encode("ascii"), tail)
        ends_at = self._loop.time() + self._total_s
        try:
            response = await self._send_request(prepared, request, request_headers, await_departure, ends_at)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            # The site may have closed a kept connection at the same time (RFC 9112, 9.3.1).
            response = await self._send_request(
                prepared, request, request_headers, await_departure, ends_at, is_again=True
            )
        if "Set-Cookie" in response.headers:
            self._cookies.add_response_cookies(url, response.headers.getall("Set-Cookie"))
        return response

    async def _send_request(
        self,
        prepared: PreparedOrigin,
        request: bytes,
        request_headers: CIMultiDict[str],
        await_departure: AwaitDeparture,
        ends_at: float,
        *,
        is_again: bool = False,
    ) -> SiteResponse:
        # A proxy requires the client to identify itself on a connection that was kept as well.
        kept_connection = (
            await self._connector.get_kept_connection(prepared.key)
            if prepared.options.proxy is None and not is_again
            else None
        )
        connection = kept_connection or await self._open_connection(prepared, ends_at)
        try:
            await await_departure()
        except BaseException:
            # Nothing was sent on the connection: the next request may use it.
            connection.release()
            raise
        site = connection.protocol
        try:
            if not isinstance(site, SiteConnection):
                raise aiohttp.ServerDisconnectedError
            await site.send_request(request, ends_at)
        except NotHttp as exc:
            connection.close()
            if kept_connection is None:
                raise
            # The bytes may be the rest of the last answer, which was longer than it declared.
            raise aiohttp.ServerDisconnectedError from exc
        except BaseException:
            connection.close()
            raise
        return SiteResponse(connection, site, request_headers)

    async def _open_connection(self, prepared: PreparedOrigin, ends_at: float) -> Connection:
        async with asyncio.timeout_at(ends_at):
            return await self._connector.connect(prepared.request, [], self._timeout)

    def _make_request(
        self,
        url: str,
        options: RequestOptions,
        conditions: Mapping[str, str] | None = None,
        cookies: BaseCookie[str] | None = None,
    ) -> aiohttp.ClientRequest:
        headers = CIMultiDict({"Accept-Encoding": ENCODINGS})
        headers.update(options.headers)
        headers.update(conditions or {})
        return aiohttp.ClientRequest(
            "GET",
            yarl.URL(url, encoded=True),
            headers=headers,
            cookies=cookies,
            loop=self._loop,
            proxy=None if options.proxy is None else yarl.URL(options.proxy),
            proxy_headers=None if options.proxy_headers is None else CIMultiDict(options.proxy_headers),
        )


def _encode_tail(headers: Mapping[str, str]) -> bytes:
    lines = []
    for name, value in headers.items():
        if _BROKEN.search(name) or _BROKEN.search(value):
            raise ValueError(f"header {name!r} has a line break in it")
        lines.append(f"{name}: {value}\r\n")
    return f" HTTP/1.1\r\n{''.join(lines)}\r\n".encode()
