"""The parameter `window` of the dialects: the span of time that statistics are about, such as 1h, 24h or 7d."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Query

from crawlfleet.errors import InvalidInput

_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WINDOW = re.compile(r"([0-9]{1,5})([mhd])")
MAX_WINDOW_MS = 400 * _UNITS_MS["d"]
"""Longest window: days are kept for as long."""


def parse_window(text: str) -> int:
    """Return the milliseconds of a window. Raises InvalidInput."""
    match = _WINDOW.fullmatch(text)
    window_ms = int(match[1]) * _UNITS_MS[match[2]] if match else 0
    if not 0 < window_ms <= MAX_WINDOW_MS:
        raise InvalidInput("a number of minutes, hours or days, such as 90m, 24h or 7d, up to 400d", field="window")
    return window_ms


async def _window_in_query(
    window: Annotated[
        str | None,
        Query(
            description="Only the last minutes, hours or days: 90m, 24h, 7d, up to 400d.",
            json_schema_extra={"pattern": "^[0-9]{1,5}[mhd]$", "example": "24h"},
        ),
    ] = None,
) -> int | None:
    return None if window is None else parse_window(window)


WindowInQuery = Annotated[int | None, Depends(_window_in_query)]
"""The parsed `window` of a query, in milliseconds; None when it is not given."""
