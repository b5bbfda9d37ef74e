"""Messages that carry cookies between an execution and a master; fields by position, as in `wire.sync`.

Ages are sent instead of instants: the clocks of node and master are never compared.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from crawlfleet.model.cookie import COOKIE_CHARS, COOKIE_URL_CHARS, JAR_COOKIES, JAR_NAME_CHARS

BODY_BYTES = 4 << 20
AGE_MS_MAX = 400 * 86_400_000


class CookieBody(msgspec.Struct, array_like=True, frozen=True):
    url: Annotated[str, msgspec.Meta(min_length=1, max_length=COOKIE_URL_CHARS)]
    header: Annotated[str, msgspec.Meta(min_length=1, max_length=COOKIE_CHARS)]
    age_ms: Annotated[int, msgspec.Meta(ge=0, le=AGE_MS_MAX)]
    """Time since the cookie was set."""


class CookiesUp(msgspec.Struct, array_like=True, frozen=True):
    """Cookies that sites set since the last call; empty when the execution only asks for the jar."""

    jar: Annotated[str, msgspec.Meta(max_length=JAR_NAME_CHARS)]
    """Name of a jar of the project; the empty name is the jar of the task, or of the crawl it takes part in."""
    changes: Annotated[list[CookieBody], msgspec.Meta(max_length=JAR_COOKIES)] = []


class CookiesDown(msgspec.Struct, array_like=True, frozen=True):
    """The whole jar, with the changes in it."""

    cookies: list[CookieBody]
