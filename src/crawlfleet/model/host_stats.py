"""Request statistics of a target host: a row of integers, which are only ever added up.

The same row is counted in an executor process, sent by a node, folded by the leader and shown to people. The positions
in it are part of the protocol and of the stored data: new ones are appended, so that a shorter row of an older node
still adds up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crawlfleet.model.instants import Instant

ALL_HOSTS = "*"
"""Name that stands for all hosts together, including those that are too many to be kept by name."""
REQUESTS, BLOCKED, PAGES, BYTES, TOO_MANY, UNAVAILABLE = range(6)
STATUSES = 6
"""First of five positions, for the status codes 1xx to 5xx."""
ERRORS = STATUSES + 5
KINDS = (
    "dns",
    "connect",
    "tls",
    "closed",
    "cut",
    "protocol",
    "timeout",
    "too_large",
    "decode",
    "redirects",
    "proxy",
    "other",
)
"""Kinds of errors, as in execution.crawl.failures: everything that kept a request from being a page, but for its status
code."""
TOOK_MS = ERRORS + len(KINDS)
TIMES = TOOK_MS + 1
BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Upper bounds of the response times; a longer time is counted in one more position."""
PLACES = TIMES + len(BOUNDS_MS) + 1

COUNT_MAX = 1 << 62
"""Largest sum that is stored."""

MINUTE_S, HOUR_S = 60, 3_600
SPANS = {"minute": MINUTE_S, "hour": HOUR_S}
KEEP_MS = {MINUTE_S: 6 * 3_600_000, HOUR_S: 14 * 86_400_000}
HOSTS_MOST = {MINUTE_S: 300, HOUR_S: 2_000}
"""Largest number of hosts that are kept in each minute and each hour; the busiest are preferred."""
TOTALS_MOST = 20_000
"""Largest number of hosts whose totals are kept."""
KEEP_TOTALS_MS = 30 * 86_400_000

_KIND_PLACES = {kind: ERRORS + place for place, kind in enumerate(KINDS)}
_OTHER = _KIND_PLACES["other"]
_UNREACHED = tuple(_KIND_PLACES[kind] for kind in ("dns", "connect", "closed", "timeout"))


class Batch(NamedTuple):
    """The counts of a node since its previous batch. Its key is (session, number), and later keys are greater."""

    node: int
    session: int
    number: int
    hosts: Sequence[tuple[str, Sequence[int]]]


class Folded(NamedTuple):
    """A batch that was added to the stored statistics."""

    node: int | None
    """Id of the node; None for a batch that an older version wrote."""
    at: Instant
    hosts: Sequence[tuple[str, Sequence[int]]]


class Counted(NamedTuple):
    """The counts of a host in a span of time; without an end, all counts since its begin."""

    at: Instant
    span_s: int
    figures: Sequence[int]


def empty_row() -> list[int]:
    return [0] * PLACES


def status_place(status: int) -> int:
    return STATUSES + min(max(status // 100, 1), 5) - 1


def error_place(kind: str) -> int:
    return _KIND_PLACES.get(kind, _OTHER)


def time_place(took_ms: float) -> int:
    return TIMES + bisect_left(BOUNDS_MS, took_ms)


def record_answer(figures: list[int], status: int, took_s: float) -> None:
    """Count a response that began this long after its request had been sent."""
    figures[status_place(status)] += 1
    if status == 429:
        figures[TOO_MANY] += 1
    elif status == 503:
        figures[UNAVAILABLE] += 1
    took_ms = took_s * 1000
    figures[TOOK_MS] += round(took_ms)
    figures[time_place(took_ms)] += 1


def add_row(sums: list[int], figures: Sequence[int]) -> None:
    """Add a row to sums. Unknown positions are left out, and a node's false count stays within the storable range."""
    for place, count in enumerate(figures[:PLACES]):
        sums[place] = min(sums[place] + count, COUNT_MAX)


def sum_rows(rows: Iterable[Sequence[int]]) -> list[int]:
    sums = empty_row()
    for row in rows:
        add_row(sums, row)
    return sums


def count_answers(figures: Sequence[int]) -> int:
    return sum(figures[TIMES:])


def count_unreached(figures: Sequence[int]) -> int:
    """Return the number of requests without a response for a reason that may lie with the network in between."""
    return sum(figures[place] for place in _UNREACHED if place < len(figures))


def percentile_ms(figures: Sequence[int], part: float) -> float | None:
    """Estimate the time within which this part (0 to 1) of the responses came, from the bounds; None without responses.

    Times are taken to be evenly spread between two bounds; of times above all bounds only the last bound is known.
    """
    times = figures[TIMES:PLACES]
    total = sum(times)
    if not total:
        return None
    wanted, below = part * total, 0
    for place, count in enumerate(times[: len(BOUNDS_MS)]):
        if count and below + count >= wanted:
            lower = BOUNDS_MS[place - 1] if place else 0
            return lower + (BOUNDS_MS[place] - lower) * max(0.0, wanted - below) / count
        below += count
    return float(BOUNDS_MS[-1])
