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
from crawlfleet.api.routes.results.group_results import INCOMPLETE, Partial, checked_progress, part_reader
from crawlfleet.api.routes.results.results import prepend_chunk
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


async def _export_request(
    format: Annotated[Format, Query(description="What kind of file.")] = "jsonl",
    bom: Annotated[bool, Query(description="CSV: begin with the mark that Excel knows UTF-8 by.")] = False,
    guard: Annotated[bool, Query(description="CSV: an apostrophe before texts that a spreadsheet would run.")] = False,
    kind: WhichInQuery = "items",
) -> ExportOptions:
    export_request = ExportOptions(format, bom, guard, kind)
    export_request.check_options()
    return export_request


TheAsked = Annotated[ExportOptions, Depends(_export_request)]


@routes.get("/tasks/{task_id}/results:export", _FILE)
async def export_task(
    task: TaskInPath,
    request: Request,
    services: TheServices,
    export_request: TheAsked,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """All items of a task as one file, or its archive (`warc`); of a running one, what has come so far."""
    kind = chunk_kind(export_request.format)
    parts, is_final = await find_task_parts(services, task, kind)
    source = Source(services.chunks, parts, kind, export_request.which)
    return await _stream_file(request, source, export_request, task_text(task), is_final, {})


@routes.get("/groups/{group_id}/results:export", _FILE, other_responses={409: INCOMPLETE})
async def export_group(
    group: GroupInPath,
    request: Request,
    services: TheServices,
    export_request: TheAsked,
    partial: Partial = False,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """The items or archives of all members as one file, in the order of the members."""
    progress = await checked_progress(services, group, partial)
    kind = chunk_kind(export_request.format)
    source = Source(
        services.chunks, await Parts.read_all(part_reader(services, progress.group, kind)), kind, export_request.which
    )
    headers = {"Group-Complete": str(progress.is_complete).lower(), "Group-Members": counts_text(progress.counts)}
    return await _stream_file(request, source, export_request, group_text(group), progress.is_complete, headers)


async def find_task_parts(services: Services, task: TaskId, kind: ChunkKind = "items") -> tuple[Parts, bool]:
    """What is there of a task's items or archive, and whether that is all there will be."""
    found_execution = await services.executions.find_with_items(task)
    if found_execution.execution is None:
        return Parts(), False
    if found_execution.manifest is not None:
        return Parts(Part(task, found_execution.execution, found_execution.manifest.count_chunks(kind))), True
    count = await Chunks(services.chunks, task, found_execution.execution, kind).count_chunks()
    return Parts(Part(task, found_execution.execution, count)), False


async def check_connected(request: Request) -> None:
    if await request.is_disconnected():
        raise ClientDisconnect


async def _stream_file(
    request: Request,
    source: Source,
    export_request: ExportOptions,
    name: str,
    is_complete: bool,
    headers: Mapping[str, str],
) -> Response:
    stream = await start_export(source, export_request, lambda: check_connected(request))
    # Read before the answer begins: items that are gone are a 404, not a broken download.
    first = await anext(stream, b"")
    file_headers = {
        "Content-Disposition": f'attachment; filename="{name}.{SUFFIXES[export_request.format]}"',
        COMPLETE: str(is_complete).lower(),
        **headers,
    }
    return StreamingResponse(
        prepend_chunk(first, stream), media_type=MEDIA_TYPES[export_request.format], headers=file_headers
    )
