"""What a task's executions left: items in pages or as a whole, and the log while it is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal

import msgspec
from fastapi import Depends, Query
from starlette.responses import Response, StreamingResponse

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import PAGE_USUAL, Cursor, Limit, TaskInPath
from crawlfleet.api.http.responses import ResponseSpec, reply
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


async def _keep(
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

    def keep(line: msgspec.Raw) -> bool:
        said = _LINE.decode(line)
        return said.level in levels and wanted in said.message.casefold()

    return keep


@routes.get("/tasks/{task_id}/results", ResultPage)
async def results(
    task: TaskInPath,
    services: TheServices,
    limit: Limit = PAGE_USUAL,
    cursor: Cursor = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Items of the execution that completed the task; for a running one, what has come so far."""
    found = await services.executions.find_with_items(task)
    place = _cursor(cursor, found.execution)
    if found.execution is None:
        return reply(ResultPage([], None, None, is_final=False, execution_id=None))
    page = await items_of(services, task, found).read_page(place, limit)
    total = None if found.manifest is None else found.manifest.items
    # While it runs there may be more after the end: the cursor leads there.
    is_over = page.is_end and found.manifest is not None
    following = None if is_over else f"{found.id_text}.{page.next.text}"
    return reply(ResultPage(page.lines, following, total, found.manifest is not None, found.id_text))


@routes.get("/tasks/{task_id}/results:download", _LINES)
async def download(task: TaskInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """All items of a task, one JSON object on each line."""
    found = await services.executions.find_with_items(task)
    headers = {"Content-Disposition": f'attachment; filename="{task_text(task)}.jsonl"'}
    if found.execution is None:
        return Response(b"", media_type="application/x-ndjson", headers=headers)
    stream = items_of(services, task, found).stream_lines()
    # Read before the answer begins: items that are gone are a 404, not a broken download.
    first = await anext(stream, b"")
    return StreamingResponse(after(first, stream), media_type="application/x-ndjson", headers=headers)


@routes.get("/tasks/{task_id}/log", LogPage)
async def log(
    task: TaskInPath,
    services: TheServices,
    execution: Annotated[str | None, Query(description="One execution; the newest unless named.")] = None,
    after: Annotated[str | None, Query(description="`next_after` of the answer before.")] = None,
    before: Annotated[
        str | None, Query(description="`end`, or `next_before` of the answer before: the last lines before that.")
    ] = None,
    limit: Limit = PAGE_USUAL,
    keep: Annotated[Keep | None, Depends(_keep)] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """The log of an execution, as far as it is written: from its beginning on, or from its end backwards. Ask again
    with `next_after` to follow it."""
    if after is not None and before is not None:
        raise InvalidInput("either `after` or `before`", field="before")
    place = Place() if after is None else Place.from_text(after, field="after")
    end = None if before in (None, _END) else Place.from_text(before or "", field="before")
    named = None if execution is None else ids.parse_id(execution, "exec", field="execution")
    found = await services.executions.find_with_log(task, named)
    if found.execution is None:
        return reply(LogPage([], place.text, None, None, is_live=True, is_end=True))
    expected = None if found.manifest is None else found.manifest.log_chunks
    chunks = Chunks(services.chunks, task, found.execution, "log", expected)
    if before is None:
        page = await chunks.read_page(place, limit, keep=keep)
        is_live = found.is_live or not page.is_end
        return reply(LogPage(page.lines, page.next.text, None, found.id_text, is_live, page.is_end))
    end = end or Place(await chunks.count_chunks())
    page = await chunks.read_page_before(end, limit, keep=keep)
    earlier = None if page.is_end else page.next.text
    return reply(LogPage(page.lines, end.text, earlier, found.id_text, found.is_live, page.is_end))


def items_of(services: Services, task: TaskId, found: FoundExecution) -> Chunks:
    assert found.execution is not None
    expected = None if found.manifest is None else found.manifest.item_chunks
    return Chunks(services.chunks, task, found.execution, "items", expected)


def _cursor(text: str | None, execution: ExecutionId | None) -> Place:
    """A cursor belongs to an execution: a task that was tried again meanwhile begins from its first item."""
    if text is None:
        return Place()
    named, _, place = text.partition(".")
    if ids.parse_id(named, "exec", field="cursor") != execution:
        raise InvalidInput("of another execution of this task: begin again without it", field="cursor")
    return Place.from_text(place, field="cursor")


async def after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for data in rest:
        yield data
