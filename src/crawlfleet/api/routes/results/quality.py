"""How good the items of a task or a group are, found out by reading them on request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import msgspec
from fastapi import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import GroupInPath, TaskInPath
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.results.exports import WhichInQuery, check_connected, find_task_parts
from crawlfleet.api.routes.results.group_results import INCOMPLETE, Partial, checked_progress, part_reader
from crawlfleet.model.principal import Principal, Role
from crawlfleet.results.export_stream import Parts, Source, regroup_lines
from crawlfleet.results.item_quality import Quality, Report
from crawlfleet.results.merged_items import Part
from crawlfleet.results.page_notes import Which

routes = RouteTable("results", PREFIX)
REMEMBERED = 100


class FieldQuality(msgspec.Struct, frozen=True):
    name: str
    filled: int
    """Items in which it is there and neither null nor empty."""
    fill_rate: float
    """Of all items, from 0 to 1."""
    types: dict[str, int]
    """How many values of each type: null, boolean, integer, number, text, list, object."""


class QualityView(msgspec.Struct, frozen=True):
    items: int
    pages: int
    """Different pages (`_url`) that gave an item."""
    items_per_page: float | None
    duplicates: int
    """Items that were there before, whatever page they are from."""
    is_exact: bool
    """False: so many that pages and duplicates are estimated from a part of them."""
    is_final: bool
    """False: more items may come."""
    fields: list[FieldQuality]
    fields_left_out: int
    """Values of fields beyond the first thousand."""


class QualityCache:
    """Reports on what does not change any more, by the execution that left it; the newest hundred."""

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[Part, Which], QualityView] = OrderedDict()

    def get(self, part: Part, which: Which) -> QualityView | None:
        return self._views.get((part, which))

    def put(self, part: Part, which: Which, view: QualityView) -> None:
        self._views[part, which] = view
        if len(self._views) > REMEMBERED:
            self._views.popitem(last=False)


@routes.get("/tasks/{task_id}/results:quality", QualityView, name="task_quality")
async def show_task_quality(
    task: TaskInPath,
    request: Request,
    services: TheServices,
    kind: WhichInQuery = "items",
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Which fields are filled and with what, items per page, and duplicates. Reads all items; a final task's once."""
    parts, is_final = await find_task_parts(services, task)
    remembered: QualityCache = request.app.state.quality
    part = next(iter(parts), None) if is_final else None
    view = None if part is None else remembered.get(part, kind)
    if view is None:
        view = await _measure_quality(request, Source(services.chunks, parts, which=kind), is_final)
        if part is not None:
            remembered.put(part, kind, view)
    return json_response(view)


@routes.get("/groups/{group_id}/results:quality", QualityView, other_responses={409: INCOMPLETE}, name="group_quality")
async def show_group_quality(
    group: GroupInPath,
    request: Request,
    services: TheServices,
    partial: Partial = False,
    kind: WhichInQuery = "items",
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """The same over the items of all members."""
    progress = await checked_progress(services, group, partial)
    source = Source(services.chunks, await Parts.read_all(part_reader(services, progress.group)), which=kind)
    return json_response(await _measure_quality(request, source, progress.is_complete))


async def _measure_quality(request: Request, source: Source, is_final: bool) -> QualityView:
    quality = Quality()
    async for lines in regroup_lines(source.stream_chunks()):
        await asyncio.to_thread(quality.add_lines, lines)
        await check_connected(request)
    return _quality_view(quality.make_report(), is_final)


def _quality_view(report: Report, is_final: bool) -> QualityView:
    fields = [
        FieldQuality(field.name, field.filled, round(field.filled / report.items, 4), field.types)
        for field in report.fields
    ]
    per_page = round(report.items / report.pages, 4) if report.pages else None
    return QualityView(
        report.items,
        report.pages,
        per_page,
        report.duplicates,
        report.is_exact,
        is_final,
        fields,
        report.fields_left_out,
    )
