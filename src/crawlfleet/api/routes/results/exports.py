"""Items or archives of a task or of a group as one file, in the format asked for, at any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import GroupInPath, TaskInPath
from crawlfleet.api.http.responses import ResponseSpec
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.results.group_results import INCOMPLETE, Partial, checked_progress, parts_of
from crawlfleet.api.routes.results.results import after
from crawlfleet.api.views.groups import counts_text
from crawlfleet.model.ids import TaskId, group_text, task_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.ports.chunk_store import ChunkKind
from crawlfleet.results.chunk_reader import Chunks
from crawlfleet.results.export_stream import (
    MEDIA_TYPES,
    SUFFIXES,
    ExportOptions,
    Format,
    Parts,
    Source,
    chunk_kind,
    start_export,
)
from crawlfleet.results.merged_items import Part
from crawlfleet.results.page_notes import Which

routes = RouteTable("results", PREFIX)
COMPLETE = "Export-Complete"
_FILE = ResponseSpec(
    {kind: {"type": "string", "format": "binary"} for kind in MEDIA_TYPES.values()},
    "The file.",
    {COMPLETE: "`false` when more may come."},
)
WhichInQuery = Annotated[
    Which, Query(description="Items without the notes that crawls keep of pages (`_page`), only those, or both.")
]


async def _asked(
    format: Annotated[Format, Query(description="What kind of file.")] = "jsonl",
    bom: Annotated[bool, Query(description="CSV: begin with the mark that Excel knows UTF-8 by.")] = False,
    guard: Annotated[bool, Query(description="CSV: an apostrophe before texts that a spreadsheet would run.")] = False,
    kind: WhichInQuery = "items",
) -> ExportOptions:
    asked = ExportOptions(format, bom, guard, kind)
    asked.check_options()
    return asked


TheAsked = Annotated[ExportOptions, Depends(_asked)]


@routes.get("/tasks/{task_id}/results:export", _FILE)
async def export_task(
    task: TaskInPath, request: Request, services: TheServices, asked: TheAsked, _: Principal = allow(Role.VIEWER)
) -> Response:
    """All items of a task as one file, or its archive (`warc`); of a running one, what has come so far."""
    kind = chunk_kind(asked.format)
    parts, is_final = await task_parts(services, task, kind)
    source = Source(services.chunks, parts, kind, asked.which)
    return await _file(request, source, asked, task_text(task), is_final, {})


@routes.get("/groups/{group_id}/results:export", _FILE, other_responses={409: INCOMPLETE})
async def export_group(
    group: GroupInPath,
    request: Request,
    services: TheServices,
    asked: TheAsked,
    partial: Partial = False,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """The items or archives of all members as one file, in the order of the members."""
    progress = await checked_progress(services, group, partial)
    kind = chunk_kind(asked.format)
    source = Source(services.chunks, await Parts.read_all(parts_of(services, progress.group, kind)), kind, asked.which)
    headers = {"Group-Complete": str(progress.is_complete).lower(), "Group-Members": counts_text(progress.counts)}
    return await _file(request, source, asked, group_text(group), progress.is_complete, headers)


async def task_parts(services: Services, task: TaskId, kind: ChunkKind = "items") -> tuple[Parts, bool]:
    """What is there of a task's items or archive, and whether that is all there will be."""
    found = await services.executions.find_with_items(task)
    if found.execution is None:
        return Parts(), False
    if found.manifest is not None:
        return Parts(Part(task, found.execution, found.manifest.count_chunks(kind))), True
    count = await Chunks(services.chunks, task, found.execution, kind).count_chunks()
    return Parts(Part(task, found.execution, count)), False


async def still_wanted(request: Request) -> None:
    if await request.is_disconnected():
        raise ClientDisconnect


async def _file(
    request: Request, source: Source, asked: ExportOptions, name: str, is_complete: bool, headers: Mapping[str, str]
) -> Response:
    stream = await start_export(source, asked, lambda: still_wanted(request))
    # Read before the answer begins: items that are gone are a 404, not a broken download.
    first = await anext(stream, b"")
    said = {
        "Content-Disposition": f'attachment; filename="{name}.{SUFFIXES[asked.format]}"',
        COMPLETE: str(is_complete).lower(),
        **headers,
    }
    return StreamingResponse(after(first, stream), media_type=MEDIA_TYPES[asked.format], headers=said)
