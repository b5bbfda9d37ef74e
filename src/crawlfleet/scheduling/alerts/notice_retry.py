"""When a notice that was not delivered is tried again: 5 seconds later, then twice as long each time, up to a day."""

from __future__ import annotations

from crawlfleet.model.instants import Instant, ms

FIRST_RETRY_S = 5.0
MAX_RETRY_S = 86_400.0
PERMANENT_RETRY_S = 600.0
"""Shortest wait after refusals that only a change of the channel ends; such a change makes its notices due at once."""
PERMANENT_TRIES = 3
"""Number of attempts after which that wait begins: a channel that refused them counts as failing."""
ABANDON_MS = 7 * 86_400_000
"""Age at which a notice is given up."""


def retry_delay_s(tries: int, retry_after_s: float | None = None, *, is_permanent: bool = False) -> float:
    """Return how long to wait after the attempt that follows `tries` earlier ones; the service's own wish is kept."""
    delay_s = min(FIRST_RETRY_S * 2.0 ** min(tries, 20), MAX_RETRY_S)
    if is_permanent and tries + 1 >= PERMANENT_TRIES:
        delay_s = max(delay_s, PERMANENT_RETRY_S)
    if retry_after_s is not None:
        delay_s = max(delay_s, min(max(0.0, retry_after_s), MAX_RETRY_S))
    return delay_s


def retry_at(
    tries: int, created_at: Instant, now: Instant, retry_after_s: float | None, *, is_permanent: bool
) -> Instant | None:
    """Return the instant of the next attempt; None for a notice that is given up."""
    if now - created_at >= ABANDON_MS:
        return None
    return now + ms(retry_delay_s(tries, retry_after_s, is_permanent=is_permanent))
