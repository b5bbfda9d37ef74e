"""Requests to sites, over the connections of aiohttp: its pool, names, TLS, proxies and parser, without its session.

A crawl asks for thousands of pages in the same words. What is the same for all pages of an origin is made once (a
`Way`); a request is then its path between two pieces of bytes. The session would make all of it anew for every page,
which takes longer than to send it. A site with cookies, or a request with conditions, gets its headers made for it.

A request is bounded in time as a whole, from the connection to the last byte of the answer: a body that drips a byte a
second never runs into a limit per read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import BaseCookie
from typing import Any, NamedTuple

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.helpers import HeadersMixin
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy

from crawlfleet.execution.crawl.body import ENCODINGS
from crawlfleet.execution.crawl.one_answer import Connector

MAX_COOKIES = 300
LINE_BYTES = 8_190
HEADERS = 128
"""Of an answer, and no line of them longer than that: as the session would have it."""
_TARGET = re.compile(r"[!-~]+")
_BROKEN = re.compile(r"[\r\n\0]")

Look = Callable[[], Awaitable[None]]
"""Returns when a request may leave on the connection that stands; raises to stop there."""


class Options(NamedTuple):
    """How the pages of an origin are asked for."""

    headers: Mapping[str, str]
    proxy: str | None = None
    proxy_headers: Mapping[str, str] | None = None


class Way(NamedTuple):
    """To the pages of one origin."""

    start: str
    """Scheme, host and port, as they stand in its URLs."""
    options: Options
    request: aiohttp.ClientRequest
    """For whoever makes the connection."""
    tail: bytes
    """Of a request, from behind its path on."""
    is_absolute: bool
    """A proxy is asked for whole URLs."""


class Answer(HeadersMixin):
    """An answer whose body is still to be read; `release` when no more of it is."""

    def __init__(
        self, connection: Connection, message: RawResponseMessage, content: StreamReader, asked: CIMultiDict[str],
        ends_at: float,
    ) -> None:  # fmt: skip
        self.status = message.code
        self.reason = message.reason
        self.headers: CIMultiDictProxy[str] = message.headers
        self.raw_headers = message.raw_headers
        self.asked = asked
        """The headers that it is the answer to."""
        # By this name the mixin reads them.
        self._headers = message.headers
        self._connection = connection
        self._content = content
        self._ends_at = ends_at

    async def chunk(self) -> bytes:
        """What is there of the body, or what comes next of it; nothing at its end."""
        content = self._content
        if content.is_eof():
            return content.read_nowait()
        async with asyncio.timeout_at(self._ends_at):
            return await content.readany()

    async def at_most(self, most: int) -> bytes:
        """The same, and no more of it than that."""
        content = self._content
        if content.is_eof():
            return content.read_nowait(most)
        async with asyncio.timeout_at(self._ends_at):
            return await content.read(most)

    @property
    def is_read(self) -> bool:
        return self._content.at_eof()

    def cookie_names(self) -> set[str]:
        """Of the cookies that it sets."""
        return {said.partition(";")[0].partition("=")[0].strip() for said in self.headers.getall("Set-Cookie", ())}

    def release(self) -> None:
        """Its connection serves the next request, if all of the answer is there; else it is closed."""
        self._connection.release()


class HttpClient:
    def __init__(self, connector: Connector, *, connect_s: float, total_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._connector = connector
        self._total_s = total_s
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        self._cookies = aiohttp.CookieJar(unsafe=True)
        self._has_cookies = False

    async def close(self) -> None:
        await self._connector.close()

    def way(self, start: str, options: Options) -> Way:
        request = self._request(start, options)
        proxy = options.proxy
        return Way(start, options, request, _tail(request.headers), proxy is not None and not request.is_ssl())

    async def get(self, way: Way, url: str, conditions: Mapping[str, str], look: Look) -> Answer:
        """The beginning of the answer. Raises as aiohttp does, TimeoutError when it takes too long."""
        target = url if way.is_absolute else url[len(way.start) :] or "/"
        if not url.startswith(way.start) or not _TARGET.fullmatch(target):
            raise aiohttp.InvalidURL(url)
        asked, tail = way.request.headers, way.tail
        if conditions or self._has_cookies:
            asked = self._request(url, way.options, conditions, self._cookies.filter_cookies(yarl.URL(url))).headers
            tail = _tail(asked)
        words = b"GET %b%b" % (target.encode("ascii"), tail)
        ends_at = self._loop.time() + self._total_s
        async with asyncio.timeout_at(ends_at):
            try:
                answer = await self._ask(way, words, asked, look, ends_at)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                # The site may have closed a kept connection in the same moment (RFC 9112, 9.3.1).
                answer = await self._ask(way, words, asked, look, ends_at)
        if "Set-Cookie" in answer.headers:
            self._keep_cookies(url, answer)
        return answer

    async def _ask(self, way: Way, words: bytes, asked: CIMultiDict[str], look: Look, ends_at: float) -> Answer:
        connection = await self._connector.connect(way.request, [], self._timeout)
        try:
            await look()
        except BaseException:
            # Nothing was sent on it: the next request may have it.
            connection.release()
            raise
        try:
            message, content = await self._answer(way, connection.protocol, words)
        except BaseException:
            connection.close()
            raise
        return Answer(connection, message, content, asked, ends_at)

    async def _answer(
        self, way: Way, protocol: ResponseHandler | None, words: bytes
    ) -> tuple[RawResponseMessage, StreamReader]:
        transport: Any = None if protocol is None else protocol.transport
        if protocol is None or transport is None or transport.is_closing():
            raise aiohttp.ServerDisconnectedError
        protocol.set_response_params(
            read_until_eof=True,
            auto_decompress=False,
            max_line_size=LINE_BYTES,
            max_field_size=LINE_BYTES,
            max_headers=HEADERS,
        )
        transport.write(words)
        try:
            while True:
                message, content = await protocol.read()
                # What comes before the answer (100, 103) is passed over.
                if not 100 <= message.code < 200 or message.code == 101:
                    return message, content
        except HttpProcessingError as exc:
            raise aiohttp.ClientResponseError(
                way.request.request_info, (), status=exc.code, message=exc.message, headers=exc.headers
            ) from exc

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

    def _keep_cookies(self, url: str, answer: Answer) -> None:
        self._cookies.update_cookies_from_headers(answer.headers.getall("Set-Cookie"), yarl.URL(url, encoded=True))
        if len(self._cookies) > MAX_COOKIES:
            self._cookies.clear()
        self._has_cookies = len(self._cookies) > 0


def _tail(headers: Mapping[str, str]) -> bytes:
    lines = []
    for name, value in headers.items():
        if _BROKEN.search(name) or _BROKEN.search(value):
            raise ValueError(f"header {name!r} has a line break in it")
        lines.append(f"{name}: {value}\r\n")
    return f" HTTP/1.1\r\n{''.join(lines)}\r\n".encode()
