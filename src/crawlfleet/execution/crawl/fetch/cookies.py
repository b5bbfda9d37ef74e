"""Cookies of a crawl: cookies that sites set go with the next requests to them, and may outlive the execution.

`CookieSession` is the jar in memory. `KeptCookies` exchanges it with a master: loaded when the execution begins, saved
while it goes on and at its end, so that the next execution, or another member of the crawl, goes on with it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Sequence
from http.cookies import BaseCookie
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec
import yarl

from crawlfleet.execution.sdk import MasterLink
from crawlfleet.model.cookie import COOKIE_CHARS, COOKIE_URL_CHARS, JAR_COOKIES, CookieKey, cookie_key
from crawlfleet.wire.cookies import AGE_MS_MAX, CookieBody, CookiesDown, CookiesUp

SAVE_S = 20.0
"""Seconds between two saves of a crawl's cookies: what the successor of a lost node may have to repeat."""
_MAX_AGE = re.compile(r"(;\s*max-age\s*=\s*)\"?(-?\d+)\"?", re.IGNORECASE)
_DOWN = msgspec.json.Decoder(CookiesDown)


class _SetCookie(NamedTuple):
    url: str
    header: str
    set_at: float
    """Monotonic time at which the cookie was set."""


class CookieSession:
    """The cookie jar of one execution."""

    def __init__(self, *, is_kept: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the jar; with `is_kept`, cookies that sites set are recorded in order to be saved."""
        self._is_kept = is_kept
        self._clock = clock
        # The jar accepts cookies of IP addresses, because sites are crawled by address as well.
        self._jar = aiohttp.CookieJar(unsafe=True)
        self._set_cookies: dict[CookieKey, _SetCookie] = {}
        self._unsaved: dict[CookieKey, _SetCookie] = {}

    def __bool__(self) -> bool:
        return len(self._jar) > 0

    @property
    def has_unsaved(self) -> bool:
        return bool(self._unsaved)

    def cookies_for(self, url: str) -> BaseCookie[str]:
        return self._jar.filter_cookies(yarl.URL(url))

    def add_response_cookies(self, url: str, headers: Sequence[str]) -> None:
        """Add the cookies of an answer's `Set-Cookie` headers."""
        self._jar.update_cookies_from_headers(headers, yarl.URL(url, encoded=True))
        if len(self._jar) > JAR_COOKIES:
            self._jar.clear()
            self._set_cookies.clear()
            self._unsaved.clear()
        if not self._is_kept:
            return
        page = urlunsplit(urlsplit(url)._replace(query="", fragment=""))
        for header in headers:
            self._record_cookie(_SetCookie(page, header, self._clock()))

    def restore_cookies(self, bodies: Iterable[CookieBody]) -> None:
        """Add the cookies of a kept jar. A cookie that a site set here and that is not saved is newer, and stays."""
        now = self._clock()
        for body in bodies:
            key = cookie_key(body.url, body.header)
            if key is None or key in self._unsaved:
                continue
            current = self._set_cookies.get(key)
            if current is not None and (current.url, current.header) == (body.url, body.header):
                continue
            self._set_cookies[key] = _SetCookie(body.url, body.header, now - body.age_ms / 1_000)
            header = _shorten_max_age(body.header, body.age_ms // 1_000)
            self._jar.update_cookies_from_headers([header], yarl.URL(body.url, encoded=True))

    def unsaved_cookies(self) -> list[CookieBody]:
        """Return the cookies that sites set and that are not marked as saved, each cookie once."""
        now = self._clock()
        return [
            CookieBody(cookie.url, cookie.header, min(AGE_MS_MAX, max(0, int((now - cookie.set_at) * 1_000))))
            for cookie in self._unsaved.values()
        ]

    def mark_saved(self, bodies: Iterable[CookieBody]) -> None:
        for body in bodies:
            key = cookie_key(body.url, body.header)
            if key is not None and key in self._unsaved and self._unsaved[key].header == body.header:
                del self._unsaved[key]

    def _record_cookie(self, cookie: _SetCookie) -> None:
        key = cookie_key(cookie.url, cookie.header)
        is_storable = len(cookie.url) <= COOKIE_URL_CHARS and len(cookie.header) <= COOKIE_CHARS
        if key is None or not is_storable or not cookie.header.isprintable() or not cookie.url.isprintable():
            return
        previous = self._set_cookies.pop(key, None)
        self._set_cookies[key] = cookie
        if len(self._set_cookies) > 2 * JAR_COOKIES:
            del self._set_cookies[next(iter(self._set_cookies))]
        # A site that sets the same cookie with every page changes nothing, unless its expiry moves with it.
        if previous is None or previous.header != cookie.header or _MAX_AGE.search(cookie.header):
            self._unsaved.pop(key, None)
            self._unsaved[key] = cookie
            if len(self._unsaved) > JAR_COOKIES:
                del self._unsaved[next(iter(self._unsaved))]


class KeptCookies:
    """Keeps a session's cookies with a master for as long as the context lasts."""

    def __init__(self, session: CookieSession, master: MasterLink, jar: str) -> None:
        self._session = session
        self._master = master
        self._jar = jar
        self._saving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._exchange_cookies()
        self._saving = asyncio.create_task(self._save_now_and_then())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.wait({self._saving})
        if self._session.has_unsaved and (kind is None or issubclass(kind, Exception)):
            await self._exchange_cookies()

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            if self._session.has_unsaved:
                await self._exchange_cookies()

    async def _exchange_cookies(self) -> None:
        changes = self._session.unsaved_cookies()
        answer = await self._master.send_request("cookies", msgspec.json.encode(CookiesUp(self._jar, changes)))
        self._session.mark_saved(changes)
        self._session.restore_cookies(_DOWN.decode(answer).cookies)


def _shorten_max_age(header: str, age_s: int) -> str:
    """Return the header as if it arrived now: its Max-Age counts from when it was set."""
    return _MAX_AGE.sub(lambda match: f"{match[1]}{int(match[2]) - age_s}", header)
