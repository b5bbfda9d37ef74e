"""What the members of a group left, as one: merging is reading, in the order of the members."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response, StreamingResponse

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.errors import MEDIA_TYPE, Problem
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Cursor, GroupInPath, Limit, parse_cursor
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.results.results import prepend_chunk
from crawlfleet.api.views.groups import (
    CrawlResult,
    GroupOutcome,
    GroupOutcomePage,
    GroupResultPage,
    counts_text,
    crawl_result,
    outcome_view,
    progress_view,
)
from crawlfleet.control.composites.groups import Progress
from crawlfleet.control.results.execution_lookup import read_manifest
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.model.group import Group, GroupKind
from crawlfleet.model.ids import GroupId, TaskId, group_text, task_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.ports.chunk_store import ChunkKind
from crawlfleet.results.chunk_reader import PAGE_BYTES
from crawlfleet.results.merged_items import Merged, MergedPlace, Part, ReadParts, Window
from crawlfleet.results.page_notes import is_note

routes = RouteTable("groups", PREFIX)
_WINDOW = 100
RESULT_ITEMS, RESULT_BYTES = 200, 48 << 10
"""As many as a single crawl's result holds."""
_LINES = ResponseSpec(
    {"application/x-ndjson": {"type": "string"}},
    "JSON lines.",
    {
        "Group-Complete": "`false` when members are missing.",
        "Group-Members": "`total=8 open=0 completed=7 failed=1 ...`",
    },
)
INCOMPLETE = ResponseSpec({MEDIA_TYPE: Problem}, "Members are missing; `progress` says how many.")

Partial = Annotated[bool, Query(description="Also while members are missing: what there is of the others.")]


class GroupIncomplete(Conflict):
    code = "group_incomplete"

    def __init__(self, progress: Progress) -> None:
        counts, name = progress.counts, group_text(progress.group.id)
        if progress.crawl is not None:
            detail = f"{name} has read {progress.crawl.counts.pages} pages and is not finished"
        else:
            detail = f"{counts.completed} of {progress.expected_members} members of {name} have completed"
        super().__init__(detail)
        self.extra = {"progress": progress_view(progress)}


@routes.get("/groups/{group_id}/results", GroupResultPage, other_responses={409: INCOMPLETE}, name="results")
async def list_group_items(
    group: GroupInPath,
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    partial: Partial = False,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """The items of all members in the order of the members, whatever the order they ended in."""
    start = MergedPlace() if cursor is None else MergedPlace.from_text(cursor, field="cursor")
    progress = await checked_progress(services, group, partial)
    page = await _merged_items(services, progress.group).read_page(start, limit)
    next_cursor = None if page.next is None else page.next.text
    return json_response(GroupResultPage(page.lines, next_cursor, progress.is_complete, progress_view(progress)))


@routes.get("/groups/{group_id}/results:download", _LINES, other_responses={409: INCOMPLETE}, name="download")
async def download_group_items(
    group: GroupInPath, services: TheServices, partial: Partial = False, _: Principal = allow(Role.VIEWER)
) -> Response:
    """The same as one file, one JSON object on each line."""
    progress = await checked_progress(services, group, partial)
    headers = {
        "Content-Disposition": f'attachment; filename="{group_text(group)}.jsonl"',
        "Group-Complete": str(progress.is_complete).lower(),
        "Group-Members": counts_text(progress.counts),
    }
    stream = _merged_items(services, progress.group).stream_lines()
    # Read before the answer begins: items that are gone are a 404, not a broken download.
    first = await anext(stream, b"")
    return StreamingResponse(prepend_chunk(first, stream), media_type="application/x-ndjson", headers=headers)


@routes.get("/groups/{group_id}/result", CrawlResult, other_responses={409: INCOMPLETE}, name="result")
async def show_crawl_result(
    group: GroupInPath, services: TheServices, partial: Partial = False, _: Principal = allow(Role.VIEWER)
) -> Response:
    """Of one crawl over many nodes: its figures and its first items, as a single crawl's result."""
    progress = await services.groups.get_progress(group)
    if progress.crawl is None:
        raise NotFound(f"{group_text(group)} is no crawl over many nodes: each of its members has a result")
    if not (progress.is_complete or partial):
        raise GroupIncomplete(progress)
    page = await _merged_items(services, progress.group).read_page(
        MergedPlace(), RESULT_ITEMS, max_bytes=RESULT_BYTES, keep=lambda line: not is_note(memoryview(line))
    )
    summary = await services.crawl_summaries.summarise_crawl(group)
    return json_response(crawl_result(progress.crawl, progress.read_at, page.lines, summary))


@routes.get("/groups/{group_id}/outcomes", GroupOutcomePage, name="outcomes")
async def list_outcomes(
    group: GroupInPath,
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """What became of each member, with the result of those that completed, in order."""
    await services.groups.get_group(group)
    after = parse_cursor(cursor) or 0
    outcomes: list[GroupOutcome] = []
    size = 0
    while True:
        window = min(_WINDOW, limit - len(outcomes))
        members = await services.store.list_members(group, after, window)
        outcomes += map(outcome_view, members)
        size += sum(len(member.result or b"") for member in members)
        if len(members) < window:
            return json_response(GroupOutcomePage(outcomes, None))
        after = members[-1].task
        # A page of large results is shorter.
        if len(outcomes) == limit or size >= PAGE_BYTES:
            return json_response(GroupOutcomePage(outcomes, task_text(after)))


async def checked_progress(services: Services, group: GroupId, partial: bool) -> Progress:
    """Raises GroupIncomplete while members are missing, unless that is known."""
    progress = await services.groups.get_progress(group)
    if not (progress.is_complete or partial):
        raise GroupIncomplete(progress)
    return progress


def _merged_items(services: Services, group: Group) -> Merged:
    return Merged(services.chunks, part_reader(services, group))


def part_reader(services: Services, group: Group, kind: ChunkKind = "items") -> ReadParts:
    """Of a crawl, what its reported chunks left: of an execution that was lost, only what it had reported."""

    async def of_crawl(after: int) -> Window:
        reported = await services.store.crawl_parts(group.id, after, _WINDOW, kind)
        parts = [Part(part.task, part.execution, part.last, part.first, part.number) for part in reported]
        return Window(parts, reported[-1].number if len(reported) == _WINDOW else None)

    async def of_members(after: TaskId) -> Window:
        members = await services.store.list_members(group.id, after, _WINDOW, with_results=False)
        parts = [
            Part(member.task, member.execution, read_manifest(member.metrics).count_chunks(kind))
            for member in members
            if member.execution is not None
        ]
        return Window(parts, members[-1].task if len(members) == _WINDOW else None)

    return of_crawl if group.kind is GroupKind.CRAWL else of_members
