"""Wording of counts, spans and instants in explanations."""

from __future__ import annotations

from crawlfleet.model.instants import Instant, to_text


def times_text(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def instant_text(at: Instant | None) -> str | None:
    return None if at is None else to_text(at)


def when_text(at: Instant | None, now: Instant) -> str:
    if at is None or at <= now:
        return "as soon as it is staged"
    return f"at {to_text(at)}, in {span_text(at - now)}"


def span_text(span_ms: int) -> str:
    """A span in words, to two figures."""
    seconds = max(0, span_ms) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"
