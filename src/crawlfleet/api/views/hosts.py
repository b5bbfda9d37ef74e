"""How what was counted of target hosts is shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from crawlfleet.api.views.tasks import Time
from crawlfleet.control.admin.hosts import RECENT_MS, HostReport
from crawlfleet.model import host_stats as figures
from crawlfleet.model.host_stats import Counted
from crawlfleet.model.instants import Instant, to_text


class AnswerTimes(msgspec.Struct, frozen=True):
    """How long the host took from a request to the beginning of its answer; null where it gave none."""

    mean: float | None
    p50: float | None
    """Half of the answers came within; this and the others as near as a dozen steps from 5 ms to 30 s tell."""
    p90: float | None
    p95: float | None
    p99: float | None


class FiguresView(msgspec.Struct, frozen=True):
    requests: int
    requests_per_s: float
    pages: int
    """Answers that were read as pages; robots.txt, sitemaps and files are requests only."""
    pages_per_s: float
    bytes: int
    """Of bodies, as they came over the wire."""
    bytes_per_s: float
    statuses: dict[str, int]
    """Answers by class: 2xx, 3xx, 4xx, 5xx."""
    too_many: int
    """Answered with 429."""
    unavailable: int
    """Answered with 503."""
    blocked: int
    """Answered with 403, or with the page of a wall."""
    errors: dict[str, int]
    """What gave no answer, or none that can be read, by kind: dns, connect, tls, closed, cut, protocol, timeout,
    too_large, decode, redirects, proxy, other."""
    answer_ms: AnswerTimes


class HostFiguresView(msgspec.Struct, frozen=True):
    since: Time | None
    """When counting began: as far back as the host is remembered."""
    total: FiguresView | None
    """Since then; null where nothing was counted. Rates are those of the whole time."""
    recent: FiguresView | None
    """Of the last five minutes."""


class HostPoint(msgspec.Struct, frozen=True):
    at: Time
    """When the minute or the hour began."""
    counted: FiguresView


class HostHistory(msgspec.Struct, frozen=True):
    name: str
    span: str
    points: list[HostPoint]
    """Oldest first; where nothing was asked, none."""


def figures_view(report: HostReport) -> HostFiguresView:
    total, now = report.total, report.now
    if total is None:
        return HostFiguresView(None, None, None)
    # A host that is new has no five minutes yet.
    begun_at = max(total.at, now - RECENT_MS)
    recent = figures.sum_rows(one.figures for one in report.recent)
    return HostFiguresView(
        to_text(total.at), _view(total.figures, _span_s(total.at, now)), _view(recent, _span_s(begun_at, now))
    )


def history_view(name: str, span: str, points: Sequence[Counted], now: Instant) -> HostHistory:
    # Of the last one only a part is over.
    return HostHistory(
        name,
        span,
        [HostPoint(to_text(one.at), _view(one.figures, min(one.span_s, _span_s(one.at, now)))) for one in points],
    )


def _span_s(since: Instant, now: Instant) -> float:
    return max(1.0, (now - since) / 1000)


def _view(row: Sequence[int], span_s: float) -> FiguresView:
    # Rows of older nodes may be shorter.
    row = figures.sum_rows([row])
    answers = figures.count_answers(row)
    p50, p90, p95, p99 = (_round_figure(figures.percentile_ms(row, part)) for part in (0.5, 0.9, 0.95, 0.99))
    classes = {f"{first}xx": row[figures.status_place(100 * first)] for first in range(1, 6)}
    kinds = {kind: row[figures.error_place(kind)] for kind in figures.KINDS}
    requests, pages, size = row[figures.REQUESTS], row[figures.PAGES], row[figures.BYTES]
    return FiguresView(
        requests,
        round(requests / span_s, 3),
        pages,
        round(pages / span_s, 3),
        size,
        round(size / span_s, 1),
        {name: count for name, count in classes.items() if count},
        row[figures.TOO_MANY],
        row[figures.UNAVAILABLE],
        row[figures.BLOCKED],
        {kind: count for kind, count in kinds.items() if count},
        AnswerTimes(_round_figure(row[figures.TOOK_MS] / answers) if answers else None, p50, p90, p95, p99),
    )


def _round_figure(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
