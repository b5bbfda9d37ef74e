"""Exponential back-off of a host that refuses (429, 503): all nodes pause, longer each time, until it is quiet."""

from __future__ import annotations

from random import Random

from crawlfleet.model.host import Backoff
from crawlfleet.model.instants import Instant

FIRST_MS = 2_000
CAP_MS = 600_000
RETRY_AFTER_CAP_MS = 3_600_000
QUIET_MS = 60_000
"""Time without a refusal after which the back-off falls by one level."""
LEVEL_MAX = 20


def backoff_after_refusal(current: Backoff, reason: str, retry_after_ms: int, now: Instant, rng: Random) -> Backoff:
    """The back-off after a refused request. Requests under way that are refused together count as one refusal."""
    asked_for = min(retry_after_ms, RETRY_AFTER_CAP_MS)
    if current.is_on(now):
        return Backoff(
            current.level, max(current.until, now + asked_for), max(current.quiet_since, now), current.reason
        )
    level = min(current.level + 1, LEVEL_MAX)
    # Jitter only ever adds to what the site itself asked for.
    span = min(CAP_MS, FIRST_MS << (level - 1)) * rng.uniform(0.8, 1.2)
    until = now + round(max(span, asked_for * rng.uniform(1.0, 1.1)))
    return Backoff(level, until, until, reason)


def backoff_after_quiet(current: Backoff, now: Instant) -> Backoff:
    """The back-off after quiet time: one level less for each quiet span since the last refusal or its end."""
    if current.level == 0 or current.is_on(now):
        return current
    spans = (now - max(current.quiet_since, current.until)) // QUIET_MS
    if spans <= 0:
        return current
    level = max(0, current.level - spans)
    return Backoff() if level == 0 else Backoff(level, current.until, now, current.reason)
