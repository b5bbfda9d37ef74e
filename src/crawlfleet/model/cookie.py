"""Cookies that outlive an execution: the stored records, and the rule for when two records are the same cookie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from crawlfleet.model.instants import Instant

JAR_COOKIES = 300
"""Largest number of cookies in one jar."""
COOKIE_CHARS = 4_096
COOKIE_URL_CHARS = 2_048
JAR_NAME_CHARS = 64
OWN_JAR_MARK = "@"
"""First character of the name of a jar that belongs to one task or crawl; no name that a person gives begins with it.
"""


class CookieKey(NamedTuple):
    """The identity of a cookie: a later record with the same key replaces it."""

    domain: str
    path: str
    name: str


class CookieRecord(NamedTuple):
    """One `Set-Cookie` header, as a site sent it."""

    url: str
    """URL of the page that set the cookie, without query."""
    header: str
    """Value of the header."""
    set_at: Instant


class CookieJarSummary(NamedTuple):
    """A cookie jar without the values in it, which are secrets."""

    project: str
    name: str
    cookies: int
    """Number of cookies in the jar."""
    hosts: tuple[str, ...]
    changed_at: Instant


def cookie_key(url: str, header: str) -> CookieKey | None:
    """Return the key of the cookie that the header sets; None for a header that sets none."""
    name, equals, _ = header.partition(";")[0].partition("=")
    if not equals or not name.strip():
        return None
    attributes = _read_attributes(header)
    place = urlsplit(url)
    domain = attributes.get("domain", "").lstrip(".").lower() or (place.hostname or "")
    path = attributes.get("path", "")
    if not path.startswith("/"):
        path = place.path.rpartition("/")[0] or "/"
    return CookieKey(domain, path, name.strip())


def is_expired(record: CookieRecord, now: Instant) -> bool:
    """Return whether the cookie has expired by `now`; one without an expiry is kept."""
    attributes = _read_attributes(record.header)
    if (max_age := attributes.get("max-age")) is not None:
        try:
            return record.set_at + int(max_age) * 1_000 <= now
        except ValueError:
            pass
    if (expires := attributes.get("expires")) is not None:
        try:
            return parsedate_to_datetime(expires).timestamp() * 1_000 <= now
        except (ValueError, OverflowError):
            return False
    return False


def merge_cookies(
    kept: Iterable[CookieRecord], changes: Iterable[CookieRecord], now: Instant
) -> dict[CookieKey, CookieRecord]:
    """Return each cookie as it was set last, without expired ones; of too many, the newest."""
    merged: dict[CookieKey, CookieRecord] = {}
    for record in (*kept, *changes):
        if (key := cookie_key(record.url, record.header)) is not None:
            merged.pop(key, None)
            merged[key] = record
    alive = [(key, record) for key, record in merged.items() if not is_expired(record, now)]
    return dict(alive[-JAR_COOKIES:])


def _read_attributes(header: str) -> Mapping[str, str]:
    pairs = (part.partition("=") for part in header.split(";")[1:])
    return {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
