"""Header profiles: named sets of request headers, with the task's own headers on top.

The profile `crawlfleet` identifies the crawler truthfully and is the default. The profiles of browsers send what these
browsers send; they do not hide that the connection is not a browser's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from crawlfleet.execution.crawl.frontier.patterns import BadRule
from crawlfleet.execution.crawl.frontier.urls import parse_origin

OWN = "crawlfleet"
_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,text/*;q=0.8,*/*;q=0.1"
_NAVIGATES = {
    "Upgrade-Insecure-Requests": "1",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-User": "?1",
}
_CHROME_ACCEPT = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
)
PROFILES: dict[str, dict[str, str]] = {
    OWN: {"Accept": _ACCEPT},
    "chrome": {
        "sec-ch-ua": '"Chromium";v="146", "Google Chrome";v="146", "Not.A/Brand";v="99"',
        "sec-ch-ua-mobile": "?0",
        "sec-ch-ua-platform": '"Windows"',
        "User-Agent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/146.0.0.0 Safari/537.36",
        "Accept": _CHROME_ACCEPT,
        **_NAVIGATES,
        "Accept-Language": "en-US,en;q=0.9",
    },
    "firefox": {
        "User-Agent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:148.0) Gecko/20100101 Firefox/148.0",
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Accept-Language": "en-US,en;q=0.5",
        **_NAVIGATES,
    },
    "safari": {
        "Sec-Fetch-Dest": "document",
        "User-Agent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/26.2 Safari/605.1.15",
        "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "Sec-Fetch-Site": "none",
        "Sec-Fetch-Mode": "navigate",
        "Accept-Language": "en-US,en;q=0.9",
    },
    "mobile": {
        "User-Agent": "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/146.0.0.0 Mobile Safari/537.36",
        "Accept": _CHROME_ACCEPT,
        "sec-ch-ua-mobile": "?1",
        "sec-ch-ua-platform": '"Android"',
        **_NAVIGATES,
        "Accept-Language": "en-US,en;q=0.9",
    },
}
HEADERS_BYTES = 8_000
HOSTS_KEPT = 10_000
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e\t]{0,4000}")
_OURS = frozenset(
    {
        "host",
        "connection",
        "keep-alive",
        "transfer-encoding",
        "content-length",
        "content-type",
        "content-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept-encoding",
        "range",
        "if-none-match",
        "if-modified-since",
        "if-range",
        "http2-settings",
    }
)
"""Headers that a task may not set, because the connection, the limits or the recrawl depend on them."""
_PRIVATE = frozenset({"authorization", "cookie"})
"""Headers that are sent to the origins of start URLs only."""


def checked_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Return the task's headers after validation. Raises BadRule that names the header."""
    for name, value in given.items():
        if not _NAME.fullmatch(name):
            raise BadRule(f"headers.{name[:50]}", "not a header's name")
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            raise BadRule(f"headers.{name}", "is set by the crawler itself")
        if not _VALUE.fullmatch(value):
            raise BadRule(f"headers.{name}", "1 to 4,000 printable ASCII characters")
    if len({name.lower() for name in given}) != len(given):
        raise BadRule("headers", "a header is named twice")
    if sum(len(name) + len(value) for name, value in given.items()) > HEADERS_BYTES:
        raise BadRule("headers", f"more than {HEADERS_BYTES:,} bytes in all")
    return dict(given)


def header_problems(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the problems of the task's own headers that the schema cannot express, for the check at submission."""
    given = parameters.get("headers", {})
    # The schema that the submission was checked against may come from a node of another version.
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        return [("headers", "names and texts")]
    try:
        checked_headers(given)
    except BadRule as exc:
        return [(exc.field, exc.detail)]
    return []


class HeaderSets:
    """The request headers per origin. With several profiles, an origin always receives the same one."""

    def __init__(
        self,
        *,
        user_agent: str,
        profiles: Sequence[str] = (OWN,),
        is_named: bool = True,
        headers: Mapping[str, str] | None = None,
        starts: Iterable[str] = (),
    ) -> None:
        """Merge profiles and headers; with `is_named`, the user agent is the task's own and outranks a profile's."""
        own = dict(headers or {})
        public = {name: value for name, value in own.items() if name.lower() not in _PRIVATE}
        self._sets = [_merge_headers(PROFILES[name], user_agent, public, is_named=is_named) for name in profiles]
        self._private = {name: value for name, value in own.items() if name.lower() in _PRIVATE}
        self._starts = {parse_origin(url).origin for url in starts}
        self._by_origin: dict[str, Mapping[str, str]] = {}

    def headers_for(self, origin: str) -> Mapping[str, str]:
        headers = self._by_origin.get(origin)
        if headers is None:
            if len(self._by_origin) >= HOSTS_KEPT:
                self._by_origin.clear()
            number = int.from_bytes(blake2b(origin.encode(), digest_size=4).digest(), "big")
            headers = self._sets[number % len(self._sets)]
            if self._private and origin in self._starts:
                headers = {**headers, **self._private}
            self._by_origin[origin] = headers
        return headers


def _merge_headers(
    profile: Mapping[str, str], user_agent: str, own: Mapping[str, str], *, is_named: bool
) -> dict[str, str]:
    merged = dict(profile)
    if is_named or "User-Agent" not in merged:
        merged["User-Agent"] = user_agent
    names = {name.lower(): name for name in merged}
    for name, value in own.items():
        merged.pop(names.get(name.lower(), ""), None)
        merged[name] = value
    return merged
