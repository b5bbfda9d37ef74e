"""Cookies on their way between an execution and a master; by position, as in `wire.sync`.

Ages travel instead of instants: the clocks of node and master are never compared.
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
    """How long ago it was set."""


class CookiesUp(msgspec.Struct, array_like=True, frozen=True):
    """What sites set since the last call; nothing of it when the execution only wants to know the jar."""

    jar: Annotated[str, msgspec.Meta(max_length=JAR_NAME_CHARS)]
    """A jar of the project by name; the empty one is that of the task, or of the crawl it takes part in."""
    changes: Annotated[list[CookieBody], msgspec.Meta(max_length=JAR_COOKIES)] = []


class CookiesDown(msgspec.Struct, array_like=True, frozen=True):
    """The whole jar, with the changes in it."""

    cookies: list[CookieBody]
