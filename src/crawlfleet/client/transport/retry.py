"""The retry rules: when a request is sent again, and after which pause."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

REFUSED_FOR_NOW = frozenset({429})
"""Statuses of requests of which nothing was done: another attempt is safe for every request."""
UNDECIDED = frozenset({502, 503, 504})
"""Statuses of requests that may have been done: another attempt is safe only for what may be done twice."""

FUTILE = frozenset({"read_too_long"})
"""Codes of errors that the same request meets again."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int = 6
    base_s: float = 0.2
    cap_s: float = 5.0
    longest_wait_s: float = 60.0
    """Longest wait in seconds that a server may ask for; a longer one is not waited for."""


def retry_pauses(policy: RetryPolicy, rng: random.Random) -> Iterator[float]:
    """Yield the waits between attempts: a random part of a limit that doubles each time, so that clients do not all
    come back at once."""
    for attempt in range(policy.attempts - 1):
        yield rng.uniform(0, min(policy.cap_s, policy.base_s * 2**attempt))


def may_repeat(status: int, code: str = "", *, is_repeatable: bool) -> bool:
    return status in REFUSED_FOR_NOW or (is_repeatable and status in UNDECIDED and code not in FUTILE)


def parse_retry_after(header: str | None) -> float:
    """Return the seconds of Retry-After; its other form, a date, compares clocks and is not used here."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0


def new_idempotency_key() -> str:
    """Return an idempotency key: one per logical call, sent again with every retry of it."""
    return secrets.token_hex(16)
