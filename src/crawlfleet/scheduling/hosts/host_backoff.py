"""Exponential back-off of a host that refuses (429, 503): all nodes pause, longer each time, until it is quiet again."""

from __future__ import annotations

from random import Random

from crawlfleet.model.host_budget import Backoff
from crawlfleet.model.instants import Instant

FIRST_MS = 2_000
CAP_MS = 600_000
RETRY_AFTER_CAP_MS = 3_600_000
QUIET_MS = 60_000
"""Time without a refusal after which the back-off falls by one level."""
LEVEL_MAX = 20


def refused(have: Backoff, reason: str, retry_after_ms: int, now: Instant, rng: Random) -> Backoff:
    """The back-off after a refused request. Requests under way that are refused together count as one refusal."""
    asked_for = min(retry_after_ms, RETRY_AFTER_CAP_MS)
    if have.is_on(now):
        return Backoff(have.level, max(have.until, now + asked_for), max(have.quiet_since, now), have.reason)
    level = min(have.level + 1, LEVEL_MAX)
    # Jitter only ever adds to what the site itself asked for.
    span = min(CAP_MS, FIRST_MS << (level - 1)) * rng.uniform(0.8, 1.2)
    until = now + round(max(span, asked_for * rng.uniform(1.0, 1.1)))
    return Backoff(level, until, until, reason)


def forgiven(have: Backoff, now: Instant) -> Backoff:
    """The back-off after quiet time: one level less for each quiet span since the last refusal or its end."""
    if have.level == 0 or have.is_on(now):
        return have
    spans = (now - max(have.quiet_since, have.until)) // QUIET_MS
    if spans <= 0:
        return have
    level = max(0, have.level - spans)
    return Backoff() if level == 0 else Backoff(level, have.until, now, have.reason)
