"""What is counted of a target host: a row of integers, which are only ever added up.

The same row is counted in an executor process, sent by a node, folded by the leader and shown to people. Its places are
part of the protocol and of what is stored: new ones are appended, so that a shorter row of an older node still adds up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crawlfleet.model.instants import Instant

ALL_HOSTS = "*"
"""Stands for all hosts together, those that are too many to be kept by name included."""
REQUESTS, BLOCKED, PAGES, BYTES, TOO_MANY, UNAVAILABLE = range(6)
STATUSES = 6
"""Five places, for 1xx to 5xx."""
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
"""Of errors, as execution.crawl.failures has them: whatever kept a request from being a page, but for its status."""
TOOK_MS = ERRORS + len(KINDS)
TIMES = TOOK_MS + 1
BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Upper bounds of the times to answer; what took longer stands in one more place."""
PLACES = TIMES + len(BOUNDS_MS) + 1

COUNT_MAX = 1 << 62

MINUTE_S, HOUR_S = 60, 3_600
SPANS = {"minute": MINUTE_S, "hour": HOUR_S}
KEEP_MS = {MINUTE_S: 6 * 3_600_000, HOUR_S: 14 * 86_400_000}
HOSTS_MOST = {MINUTE_S: 300, HOUR_S: 2_000}
"""In each minute and each hour; the busiest are preferred."""
TOTALS_MOST = 20_000
KEEP_TOTALS_MS = 30 * 86_400_000

_KIND_PLACES = {kind: ERRORS + place for place, kind in enumerate(KINDS)}
_OTHER = _KIND_PLACES["other"]
_UNREACHED = tuple(_KIND_PLACES[kind] for kind in ("dns", "connect", "closed", "timeout"))


class Batch(NamedTuple):
    """What a node counted since the batch before. Its name is (session, number), and later ones are greater."""

    node: int
    session: int
    number: int
    hosts: Sequence[tuple[str, Sequence[int]]]


class Folded(NamedTuple):
    """A batch that was added to what is kept."""

    node: int | None
    """None: of a batch that an older version wrote."""
    at: Instant
    hosts: Sequence[tuple[str, Sequence[int]]]


class Counted(NamedTuple):
    """What was counted of a host in a span of time; without an end it is all there was since."""

    at: Instant
    span_s: int
    figures: Sequence[int]


def nothing() -> list[int]:
    return [0] * PLACES


def status_place(status: int) -> int:
    return STATUSES + min(max(status // 100, 1), 5) - 1


def error_place(kind: str) -> int:
    return _KIND_PLACES.get(kind, _OTHER)


def time_place(took_ms: float) -> int:
    return TIMES + bisect_left(BOUNDS_MS, took_ms)


def answered(figures: list[int], status: int, took_s: float) -> None:
    """An answer began, so long after its request had left."""
    figures[status_place(status)] += 1
    if status == 429:
        figures[TOO_MANY] += 1
    elif status == 503:
        figures[UNAVAILABLE] += 1
    took_ms = took_s * 1000
    figures[TOOK_MS] += round(took_ms)
    figures[time_place(took_ms)] += 1


def add(sums: list[int], figures: Sequence[int]) -> None:
    """Places that are not known here are left out, and what a liar counted stays within what can be kept."""
    for place, count in enumerate(figures[:PLACES]):
        sums[place] = min(sums[place] + count, COUNT_MAX)


def summed(rows: Iterable[Sequence[int]]) -> list[int]:
    sums = nothing()
    for row in rows:
        add(sums, row)
    return sums


def answers(figures: Sequence[int]) -> int:
    return sum(figures[TIMES:])


def unreached(figures: Sequence[int]) -> int:
    """Requests that got no answer for a reason that may lie with the network between node and host."""
    return sum(figures[place] for place in _UNREACHED if place < len(figures))


def percentile_ms(figures: Sequence[int], part: float) -> float | None:
    """The time within which this part (0 to 1) of the answers came, as near as its bounds tell; None for none.

    Within its bounds it is taken to lie evenly; of what took longer than all of them only the last bound is known.
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
