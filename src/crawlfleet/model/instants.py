"""Instants and spans.

An instant is an integer of milliseconds since the Unix epoch, UTC: it sorts, subtracts and crosses every database and
wire unchanged. Text with a zone appears only where people read it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

Instant = int
"""Number of milliseconds since 1970-01-01T00:00:00Z."""
LAST: Instant = 253_402_300_799_999
"""Last instant that can be written as text: the end of the year 9999."""


@lru_cache(maxsize=1024)
def to_text(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_text(text: str) -> Instant:
    """Parse an ISO 8601 instant. Raises ValueError for any other text, and for one without a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise ValueError(f"{text!r} is no instant such as 2026-01-31T12:00:00Z") from exc
    if moment.tzinfo is None:
        raise ValueError("an instant needs a time zone, such as 2026-01-31T12:00:00Z")
    at = round(moment.timestamp() * 1000)
    if at > LAST:
        # With a zone, or by rounding, text of the last year may lead beyond what can be written as text again.
        raise ValueError("an instant is 9999-12-31T23:59:59.999Z at the latest")
    return at


def ms(seconds: float) -> int:
    return round(seconds * 1000)
