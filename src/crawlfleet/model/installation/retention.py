"""How long an installation keeps what is over."""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 86_400_000
KEEP_AUDIT_MS = 365 * DAY_MS
"""Span for which the audit log is kept."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long each kind of record is kept."""

    tasks_ms: int = 30 * DAY_MS
    events_ms: int = 7 * DAY_MS
    audit_ms: int = KEEP_AUDIT_MS
    gone_products_ms: int | None = 90 * DAY_MS
    """Time that products are kept after they were found to be gone; None: for ever."""
