"""What a task's executions left: items in pages or as a whole, and the log while it is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal

import msgspec
from fastapi import Depends, Query
from starlette.responses import Response, StreamingResponse

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Cursor, Limit, TaskInPath
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.control.results.execution_lookup import FoundExecution
from crawlfleet.control.results.result_collection import LEVELS, LogLine
from crawlfleet.errors import InvalidInput
from crawlfleet.model import ids
from crawlfleet.model.ids import ExecutionId, TaskId, task_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.results.chunk_reader import Chunks, Place

routes = RouteTable("results", PREFIX)
_LINES = ResponseSpec({"application/x-ndjson": {"type": "string"}}, "JSON lines.")
_END = "end"
_LINE = msgspec.json.Decoder(LogLine)


class ResultPage(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]
    next_cursor: str | None
    """null at the end of what there is."""
    total: int | None
    """Items in all; null while it is not final."""
    is_final: bool
    """False: what its running execution has sent so far, which may still come to nothing."""
    execution_id: str | None


class LogPage(msgspec.Struct, frozen=True):
    lines: list[msgspec.Raw]
    next_after: str
    """Ask again with it as `after`: what is written meanwhile comes then."""
    next_before: str | None
    """Ask again with it as `before` for the lines before these; null at the first line, and of a page that was asked
    for with `after`."""
    execution_id: str | None
    is_live: bool
    """More may come."""
    is_end: bool
    """Nothing more is there at this moment. A search looks at a bounded part of the log: a page without lines may be
    followed by one with some."""


Keep = Callable[[msgspec.Raw], bool]


async def _line_filter(
    level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"] | None, Query(description="This level and above.")
    ] = None,
    q: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Lines with this in them, in any case of letters.")
    ] = None,
) -> Keep | None:
    """Which lines are asked for; None for all of them."""
    if level is None and q is None:
        return None
    levels = frozenset(LEVELS[LEVELS.index(level) :] if level is not None else LEVELS)
    wanted = (q or "").casefold()

    def matches_filter(line: msgspec.Raw) -> bool:
        log_line = _LINE.decode(line)
        return log_line.level in levels and wanted in log_line.message.casefold()

    return matches_filter


@routes.get("/tasks/{task_id}/results", ResultPage, name="results")
async def list_items(
    task: TaskInPath,
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Items of the execution that completed the task; for a running one, what has come so far."""
    found_execution = await services.executions.find_with_items(task)
    place = _parse_cursor(cursor, found_execution.execution)
    if found_execution.execution is None:
        return json_response(ResultPage([], None, None, is_final=False, execution_id=None))
    page = await item_chunks(services, task, found_execution).read_page(place, limit)
    total = None if found_execution.manifest is None else found_execution.manifest.items
    # While it runs there may be more after the end: the cursor leads there.
    is_over = page.is_end and found_execution.manifest is not None
    next_cursor = None if is_over else f"{found_execution.id_text}.{page.next.text}"
    return json_response(
        ResultPage(page.lines, next_cursor, total, found_execution.manifest is not None, found_execution.id_text)
    )


@routes.get("/tasks/{task_id}/results:download", _LINES, name="download")
async def download_items(task: TaskInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """All items of a task, one JSON object on each line."""
    found_execution = await services.executions.find_with_items(task)
    headers = {"Content-Disposition": f'attachment; filename="{task_text(task)}.jsonl"'}
    if found_execution.execution is None:
        return Response(b"", media_type="application/x-ndjson", headers=headers)
    stream = item_chunks(services, task, found_execution).stream_lines()
    # Read before the answer begins: items that are gone are a 404, not a broken download.
    first = await anext(stream, b"")
    return StreamingResponse(prepend_chunk(first, stream), media_type="application/x-ndjson", headers=headers)


@routes.get("/tasks/{task_id}/log", LogPage, name="log")
async def show_log(
    task: TaskInPath,
    services: TheServices,
    execution: Annotated[str | None, Query(description="One execution; the newest unless named.")] = None,
    after: Annotated[str | None, Query(description="`next_after` of the answer before.")] = None,
    before: Annotated[
        str | None, Query(description="`end`, or `next_before` of the answer before: the last lines before that.")
    ] = None,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    keep: Annotated[Keep | None, Depends(_line_filter)] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """The log of an execution, as far as it is written: from its beginning on, or from its end backwards. Ask again
    with `next_after` to follow it."""
    if after is not None and before is not None:
        raise InvalidInput("either `after` or `before`", field="before")
    place = Place() if after is None else Place.from_text(after, field="after")
    end = None if before in (None, _END) else Place.from_text(before or "", field="before")
    named = None if execution is None else ids.parse_id(execution, "exec", field="execution")
    found_execution = await services.executions.find_with_log(task, named)
    if found_execution.execution is None:
        return json_response(LogPage([], place.text, None, None, is_live=True, is_end=True))
    expected = None if found_execution.manifest is None else found_execution.manifest.log_chunks
    chunks = Chunks(services.chunks, task, found_execution.execution, "log", expected)
    if before is None:
        page = await chunks.read_page(place, limit, keep=keep)
        is_live = found_execution.is_live or not page.is_end
        return json_response(LogPage(page.lines, page.next.text, None, found_execution.id_text, is_live, page.is_end))
    end = end or Place(await chunks.count_chunks())
    page = await chunks.read_page_before(end, limit, keep=keep)
    earlier = None if page.is_end else page.next.text
    return json_response(
        LogPage(page.lines, end.text, earlier, found_execution.id_text, found_execution.is_live, page.is_end)
    )


def item_chunks(services: Services, task: TaskId, found_execution: FoundExecution) -> Chunks:
    assert found_execution.execution is not None
    expected = None if found_execution.manifest is None else found_execution.manifest.item_chunks
    return Chunks(services.chunks, task, found_execution.execution, "items", expected)


def _parse_cursor(text: str | None, execution: ExecutionId | None) -> Place:
    """A cursor belongs to an execution: a task that was tried again meanwhile begins from its first item."""
    if text is None:
        return Place()
    named, _, place = text.partition(".")
    if ids.parse_id(named, "exec", field="cursor") != execution:
        raise InvalidInput("of another execution of this task: begin again without it", field="cursor")
    return Place.from_text(place, field="cursor")


async def prepend_chunk(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for data in rest:
        yield data
