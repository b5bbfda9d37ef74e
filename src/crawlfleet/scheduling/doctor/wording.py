"""Words for spans, sizes and lists in the sentences of checks."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
MAX_NAMES = 5


def span_text(span_s: float) -> str:
    """A span in its largest fitting unit: 2 days, 1 hour, 5 minutes."""
    for unit_s, name in _UNITS:
        if span_s >= unit_s:
            return count_text(int(span_s // unit_s), name)
    return "less than a second"


def size_text(size_bytes: int) -> str:
    for unit, name in _SIZES:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} bytes"


def count_text(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def list_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown
