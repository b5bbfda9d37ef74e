"""The HTTP client sends requests to sites over connections that aiohttp makes and keeps, without its session.

A crawl sends thousands of almost equal requests. What all pages of an origin have in common is made once (a `Way`); a
request is then its path between two pieces of bytes. The session would make all of it anew for every page, which takes
longer than to send it. For a site with cookies, or a request with conditions, the headers are made per request.

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

Look = Callable[[], Awaitable[None]]
"""Function that returns when a request may leave on the established connection, and raises to prevent it."""


class Options(NamedTuple):
    """The headers and the proxy for requests to an origin."""

    headers: Mapping[str, str]
    proxy: str | None = None
    proxy_headers: Mapping[str, str] | None = None


class Way(NamedTuple):
    """The prepared requests to the pages of one origin."""

    start: str
    """Scheme, host and port, as they stand in the URLs of the origin."""
    options: Options
    request: aiohttp.ClientRequest
    """Request that aiohttp's connector needs to make a connection."""
    key: ConnectionKey
    """Key under which connections to the origin are kept."""
    tail: bytes
    """Bytes of a request that follow its path."""
    is_absolute: bool
    """Whether requests carry the whole URL, as a proxy expects it."""


class Answer(HeadersMixin):
    """An answer whose body is still to be read; call `release` when no more of it is needed."""

    def __init__(self, connection: Connection, said: SiteConnection, asked: CIMultiDict[str]) -> None:
        self.status = said.status
        self.raw_headers = said.fields
        self._reason = said.reason
        self.asked = asked
        """Headers of the request that this answers."""
        # The mixin reads the headers under this name.
        self._headers = self.headers = CIMultiDictProxy(
            CIMultiDict(
                [
                    (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape"))
                    for name, value in said.fields
                ]
            )
        )
        self._connection = connection
        self._said = said
        self.chunk = said.part
        """Function that returns the received part of the body, or waits for the next one; empty at its end."""

    @property
    def reason(self) -> str:
        return self._reason.decode("utf-8", "surrogateescape")

    async def at_most(self, most: int) -> bytes:
        """Return the next part of the body, and at most `most` bytes of it."""
        part = await self._said.part()
        if len(part) > most:
            self._said.put_back(part[most:])
            part = part[:most]
        return part

    @property
    def is_read(self) -> bool:
        return self._said.is_read

    def cookie_names(self) -> set[str]:
        """Return the names of the cookies that the answer sets."""
        return {said.partition(";")[0].partition("=")[0].strip() for said in self.headers.getall("Set-Cookie", ())}

    def release(self) -> None:
        """Keep the connection for the next request if the whole answer has arrived; else close it."""
        self._said.done()
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

    def way(self, start: str, options: Options) -> Way:
        request = self._request(start, options)
        proxy = options.proxy
        is_absolute = proxy is not None and not request.is_ssl()
        return Way(start, options, request, request.connection_key, _tail(request.headers), is_absolute)

    async def get(self, way: Way, url: str, conditions: Mapping[str, str], look: Look) -> Answer:
        """Return the answer once its head has arrived. Raises as aiohttp does, TimeoutError when it takes too long."""
        target = url if way.is_absolute else url[len(way.start) :] or "/"
        if not url.startswith(way.start) or not _TARGET.fullmatch(target):
            raise aiohttp.InvalidURL(url)
        asked, tail = way.request.headers, way.tail
        if conditions or self._cookies:
            asked = self._request(url, way.options, conditions, self._cookies.cookies_for(url)).headers
            tail = _tail(asked)
        words = b"GET %b%b" % (target.encode("ascii"), tail)
        ends_at = self._loop.time() + self._total_s
        try:
            answer = await self._ask(way, words, asked, look, ends_at)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            # The site may have closed a kept connection at the same time (RFC 9112, 9.3.1).
            answer = await self._ask(way, words, asked, look, ends_at, is_again=True)
        if "Set-Cookie" in answer.headers:
            self._cookies.receive(url, answer.headers.getall("Set-Cookie"))
        return answer

    async def _ask(
        self, way: Way, words: bytes, asked: CIMultiDict[str], look: Look, ends_at: float, *, is_again: bool = False
    ) -> Answer:
        # A proxy requires the client to identify itself on a connection that was kept as well.
        kept = await self._connector.kept(way.key) if way.options.proxy is None and not is_again else None
        connection = kept or await self._connect(way, ends_at)
        try:
            await look()
        except BaseException:
            # Nothing was sent on the connection: the next request may use it.
            connection.release()
            raise
        site = connection.protocol
        try:
            if not isinstance(site, SiteConnection):
                raise aiohttp.ServerDisconnectedError
            await site.ask(words, ends_at)
        except NotHttp as exc:
            connection.close()
            if kept is None:
                raise
            # The bytes may be the rest of the last answer, which was longer than it declared.
            raise aiohttp.ServerDisconnectedError from exc
        except BaseException:
            connection.close()
            raise
        return Answer(connection, site, asked)

    async def _connect(self, way: Way, ends_at: float) -> Connection:
        async with asyncio.timeout_at(ends_at):
            return await self._connector.connect(way.request, [], self._timeout)

    def _request(
        self,
        url: str,
        options: Options,
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


def _tail(headers: Mapping[str, str]) -> bytes:
    lines = []
    for name, value in headers.items():
        if _BROKEN.search(name) or _BROKEN.search(value):
            raise ValueError(f"header {name!r} has a line break in it")
        lines.append(f"{name}: {value}\r\n")
    return f" HTTP/1.1\r\n{''.join(lines)}\r\n".encode()
