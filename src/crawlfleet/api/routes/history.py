"""The history of task figures: minutes, hours and days of the installation and of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

import msgspec
from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import Label, Moment, Text, parse_instant
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time
from crawlfleet.control.admin.figures import SERIES_MOST, History
from crawlfleet.errors import InvalidInput
from crawlfleet.model.figures import task_figures as figures
from crawlfleet.model.figures.task_figures import ALL, FIELDS, GAUGES, FigurePoint
from crawlfleet.model.instants import to_text
from crawlfleet.model.limits import LABEL_CHARS
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("history", PREFIX)

Column = list[int | float | None]
SeriesName = Annotated[Text, Field(min_length=1, max_length=2 * LABEL_CHARS)]
_Row = Sequence[int]


def _percentile(times: Callable[[_Row], Sequence[int]], part: float) -> Callable[[_Row], float | None]:
    return lambda row: figures.percentile_ms(times(row), part)


_DERIVED: Mapping[str, Callable[[_Row], float | None]] = {
    "failure_rate": figures.failure_rate,
    "run_avg_ms": figures.average_run_ms,
    "run_p50_ms": _percentile(figures.run_times, 0.5),
    "run_p95_ms": _percentile(figures.run_times, 0.95),
    "run_p99_ms": _percentile(figures.run_times, 0.99),
    "wait_p50_ms": _percentile(figures.wait_times, 0.5),
    "wait_p95_ms": _percentile(figures.wait_times, 0.95),
    "wait_p99_ms": _percentile(figures.wait_times, 0.99),
}
_GAUGE_FIELDS: Mapping[str, Callable[[_Row], float]] = {
    **{name: partial(figures.average_gauge, gauge=place) for place, name in enumerate(GAUGES)},
    **{f"{name}_max": partial(figures.highest_gauge, gauge=place) for place, name in enumerate(GAUGES)},
}
FIELD_NAMES = (*FIELDS, *_DERIVED, *_GAUGE_FIELDS)
DEFAULT_FIELDS = ("submitted", "completed", "failed", "timeout", "cancelled", "retried", "lost", "run_p95_ms")
_FIELDS_TEXT = (
    f"Names with commas between them; else {', '.join(DEFAULT_FIELDS)}. There are: {', '.join(FIELD_NAMES)}. "
    "Gauges exist for the series `*` only."
)


class HistorySeries(msgspec.Struct, frozen=True):
    series: str
    fields: dict[str, Column]
    """A column for each field, with one value for each of `times`; null where a value is not known."""


class HistoryView(msgspec.Struct, frozen=True):
    span: str
    since: Time
    until: Time
    times: list[Time]
    """The begin of each span, oldest first, without gaps."""
    series: list[HistorySeries]


@routes.get("/history", ResponseSpec(HistoryView, "Columns, oldest first."), name="show")
async def show_history(
    services: TheServices,
    series: Annotated[
        list[SeriesName],
        Query(
            max_length=SERIES_MOST,
            description="`*` for all, or KIND:NAME of a type, project, queue, priority, cluster or node; repeatable.",
        ),
    ] = [ALL],  # noqa: B006
    span: Annotated[Literal["minute", "hour", "day"], Query(description="Of each point.")] = "minute",
    since: Annotated[Moment | None, Query(description="The oldest point; else as far back as there are any.")] = None,
    until: Annotated[Moment | None, Query(description="Points before that; else up to now.")] = None,
    fields: Annotated[Label | None, Query(max_length=1_000, description=_FIELDS_TEXT)] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """What happened to tasks: minutes of six hours, hours of two weeks, days of 400 days; at most 500 points."""
    names = _parse_fields(fields)
    bounds = parse_instant("since", since), parse_instant("until", until)
    with_gauges = ALL in series and any(name in _GAUGE_FIELDS for name in names)
    history = await services.figures.load_history(series, span, *bounds, with_gauges=with_gauges)
    return json_response(_history_view(history, span, names))


def _parse_fields(text: str | None) -> Sequence[str]:
    if text is None:
        return DEFAULT_FIELDS
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in FIELD_NAMES:
            raise InvalidInput(f"{name!r} is no field: there are {', '.join(FIELD_NAMES)}", field="fields")
    return names


def _history_view(history: History, span: str, names: Sequence[str]) -> HistoryView:
    times = range(history.since, history.until, history.span_s * 1000)
    gauges = {point.starts_at: point.figures for point in history.gauges}
    return HistoryView(
        span,
        to_text(history.since),
        to_text(history.until),
        [to_text(time) for time in times],
        [
            HistorySeries(name, _columns(points, gauges if name == ALL else {}, times, names))
            for name, points in history.series.items()
        ],
    )


def _columns(
    points: Sequence[FigurePoint], gauges: Mapping[int, _Row], times: Sequence[int], names: Sequence[str]
) -> dict[str, Column]:
    rows = {point.starts_at: point.figures for point in points}
    return {name: _column(name, rows, gauges, times) for name in names}


def _column(name: str, rows: Mapping[int, _Row], gauges: Mapping[int, _Row], times: Sequence[int]) -> Column:
    if name in FIELDS:
        place = FIELDS[name]
        return [rows[time][place] if time in rows else 0 for time in times]
    source, derive = (rows, _DERIVED[name]) if name in _DERIVED else (gauges, _GAUGE_FIELDS[name])
    return [_rounded(derive(source[time])) if time in source else None for time in times]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
