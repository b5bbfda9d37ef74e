"""Groups: made with their tasks or by splitting one, looked at, and changed as one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec
from fastapi import Query, Request
from pydantic import BeforeValidator
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, require_principal, write_audit_entry
from crawlfleet.api.http.errors import problem_response, refusal_response
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import (
    DEFAULT_PAGE_RECORDS,
    Cursor,
    GroupInPath,
    Limit,
    Name,
    check_query_names,
    parse_cursor,
)
from crawlfleet.api.http.responses import JSON, ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices, get_services
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.tasks.bulk import MOST, Tally
from crawlfleet.api.routes.tasks.submit import (
    KEY,
    KEY_PARAMETER,
    batch_refusal_response,
    check_media_type,
    read_idempotency_key,
    replay_headers,
    unreadable_body_error,
)
from crawlfleet.api.routes.tasks.task_filters import split_commas
from crawlfleet.api.views.groups import (
    GroupPageView,
    GroupView,
    GroupWhyView,
    KindWord,
    RemovedView,
    group_view,
    group_why_view,
)
from crawlfleet.api.views.tasks import BulkView, item_view
from crawlfleet.control.composites.groups import PAGE, GroupOpen, GroupRequest, MemberChanges
from crawlfleet.control.composites.sharding import split_task
from crawlfleet.control.composites.spread_crawl import SpreadCrawl
from crawlfleet.errors import InvalidInput
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import GroupId, TaskId, group_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.task_store import SubmissionAnswer
from crawlfleet.wire.groups import CrawlBody, GroupBody, GroupFrame
from crawlfleet.wire.tasks import TaskBody, read_task, read_tasks, storage_problem

routes = RouteTable("groups", PREFIX)
_frame = msgspec.json.Decoder(GroupFrame).decode
_UNSET = msgspec.UNSET

Bodies = list[TaskBody | Refusal]
Change = Callable[[TaskId], Awaitable[MemberChanges]]
NotCompleted = Literal["failed", "timeout", "cancelled"]


@routes.plain(
    "POST",
    "/groups",
    ResponseSpec(
        GroupView,
        "Stored.",
        {
            "Location": "Where the group is.",
            "Idempotency-Replayed": "`true` when it was made before, under the same key.",
        },
    ),
    status=201,
    summary="Make a group",
    description="With its first tasks (up to 10,000), by splitting the list of one task into shards, or as one "
    "crawl over many nodes; all of it or nothing. Answered once it is on disk.",
    parameters=[KEY_PARAMETER],
    body=GroupBody,
    name="create",
)
async def create_group(request: PlainRequest) -> Response:
    principal = await require_principal(request, Role.OPERATOR)
    check_query_names(request)
    check_media_type(request, JSON)
    raw = await request.body()
    services = get_services(request)
    bodies, wanted = _read_group(raw, services.spread_crawl, max_bytes=request.limit)
    scope = f"project:{wanted.project}" if wanted.project else f"token:{principal.token}"
    answer = await services.groups.create_group(wanted, bodies, scope=scope, key=read_idempotency_key(request))
    if answer.group is None:
        return _refused_response(answer, is_split=wanted.kind is not GroupKind.GROUP)
    if not answer.is_replay:
        details = {"name": wanted.name, "tasks": len(bodies)}
        await write_audit_entry(request, principal, "group.create", group_text(answer.group), details)
    view = group_view(await services.groups.get_progress(answer.group))
    return json_response(view, 201, {"Location": f"{PREFIX}/groups/{view.id}", **replay_headers(answer)})


def _read_group(raw: bytes, spreading: SpreadCrawl, *, max_bytes: int) -> tuple[Bodies, GroupRequest]:
    try:
        frame = _frame(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise unreadable_body_error(raw, exc, "body", GroupFrame) from exc
    for field in ("name", "project_id"):
        if complaint := storage_problem(getattr(frame, field) or ""):
            raise InvalidInput(complaint, field=field)
    wanted = GroupRequest(frame.project_id or "", frame.name, frame.is_closed)
    if frame.crawl is not None:
        return _spread_crawl(frame, spreading, frame.crawl, wanted, max_bytes)
    if frame.task is not _UNSET or frame.shard is not None:
        return _split_task(frame, wanted, max_bytes)
    bodies = _read_tasks(raw, frame)
    if frame.is_closed and not bodies:
        raise InvalidInput("a closed group without tasks could never have any", field="is_closed")
    return bodies, wanted


def _read_tasks(raw: bytes, frame: GroupFrame) -> Bodies:
    if isinstance(frame.tasks, msgspec.UnsetType):
        return []
    try:
        return read_tasks(bytes(frame.tasks))
    except msgspec.MsgspecError as exc:
        raise unreadable_body_error(raw, exc, "tasks") from exc


def _split_task(frame: GroupFrame, wanted: GroupRequest, max_bytes: int) -> tuple[Bodies, GroupRequest]:
    if frame.tasks is not _UNSET:
        raise InvalidInput("give either tasks, or a task with shard", field="tasks")
    if isinstance(frame.task, msgspec.UnsetType):
        raise InvalidInput("which task is to be split?", field="task")
    if frame.shard is None:
        raise InvalidInput("how is the task to be split? Give over, and size or count", field="shard")
    bodies, spec = split_task(_read_template(frame.task, max_bytes), frame.shard)
    return bodies, GroupRequest(wanted.project, wanted.name, True, spec)


def _spread_crawl(
    frame: GroupFrame, spreading: SpreadCrawl, crawl: CrawlBody, wanted: GroupRequest, max_bytes: int
) -> tuple[Bodies, GroupRequest]:
    if frame.tasks is not _UNSET or frame.shard is not None:
        raise InvalidInput("give either tasks, or a task with shard, or a task with crawl", field="crawl")
    if isinstance(frame.task, msgspec.UnsetType):
        raise InvalidInput("which crawl is to run over many nodes?", field="task")
    members, new = spreading.spread_task(_read_template(frame.task, max_bytes), crawl)
    return list(members), GroupRequest(wanted.project, wanted.name, True, crawl=new)


def _read_template(raw: msgspec.Raw, max_bytes: int) -> TaskBody:
    template = read_task(raw, max_bytes=max_bytes)
    if isinstance(template, Refusal):
        raise InvalidInput(template.detail, field=f"task.{template.field}" if template.field else "task")
    return template


def _refused_response(answer: SubmissionAnswer, *, is_split: bool) -> Response:
    """Nothing was stored; the task, or the shard, that is to blame is named."""
    index, first = next(
        (index, item)
        for index, item in enumerate(answer.items)
        if isinstance(item, Refusal) and item.code is not Code.BATCH_REFUSED
    )
    if first.code is Code.IDEMPOTENCY_MISMATCH:
        return refusal_response(first, field=KEY)
    if not is_split:
        return batch_refusal_response(answer.items, [item_view(item) for item in answer.items])
    field = f"task.{first.field}" if first.field else "task"
    return problem_response(422, str(first.code), f"nothing was stored: member {index}: {first.detail}", field=field)


@routes.get("/groups", ResponseSpec(GroupPageView, "Newest first."))
async def list_groups(
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    project_id: Annotated[Name | None, Query()] = None,
    kind: Annotated[KindWord | None, Query()] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    wanted = None if kind is None else GroupKind.of_word(kind)
    groups = await services.groups.list_groups(limit, parse_cursor(cursor, "group"), project_id, wanted)
    next_cursor = group_text(groups[-1].group.id) if len(groups) == limit else None
    return json_response(GroupPageView([group_view(group) for group in groups], next_cursor))


@routes.get("/groups/{group_id}", GroupView, name="show")
async def show_group(group: GroupInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """A group with its progress, exact at any moment, and the first of its failures."""
    return json_response(group_view(await services.groups.get_progress(group)))


@routes.get("/groups/{group_id}/why", GroupWhyView, name="why")
async def explain_group(group: GroupInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """What holds up the members of a group that have not ended: a sentence, and the same as data."""
    return json_response(group_why_view(group, await services.why.explain_group(group)))


@routes.post("/groups/{group_id}:close", GroupView, name="close")
async def close_group(
    group: GroupInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Let no other tasks join."""
    await services.groups.close_group(group)
    await write_audit_entry(request, principal, "group.close", group_text(group))
    return json_response(group_view(await services.groups.get_progress(group)))


@routes.post("/groups/{group_id}:cancel", BulkView, name="cancel")
async def cancel_group(
    group: GroupInPath,
    request: Request,
    services: TheServices,
    cursor: Cursor = None,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Close the group, and cancel every member that has not ended. Those on nodes are asked to stop."""
    after = parse_cursor(cursor) or 0
    await services.groups.get_plain_group(group)
    await services.groups.close_group(group)
    view = await _change_members(lambda start: services.groups.cancel_members(group, start), after)
    return await _audited_response(request, principal, "group.cancel", group, view)


@routes.post("/groups/{group_id}:retry", BulkView, name="retry")
async def retry_group(
    group: GroupInPath,
    request: Request,
    services: TheServices,
    cursor: Cursor = None,
    status: Annotated[
        list[NotCompleted] | None,
        BeforeValidator(split_commas),
        Query(description="Members that ended so; failed and timeout unless named."),
    ] = None,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Open the next round of the members that failed or took too long, and of those only."""
    after = parse_cursor(cursor) or 0
    await services.groups.get_plain_group(group)
    statuses = [TaskStatus.of_word(word) for word in dict.fromkeys(status or ("failed", "timeout"))]
    view = await _change_members(lambda start: services.groups.retry_members(group, statuses, start), after)
    return await _audited_response(request, principal, "group.retry", group, view)


@routes.delete("/groups/{group_id}", RemovedView, name="remove")
async def remove_group(
    group: GroupInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Forget a finished group with its tasks and everything they left. Of a very large one, some at a time."""
    await services.groups.get_plain_group(group)
    progress = await services.groups.get_progress(group)
    if progress.counts.open:
        raise GroupOpen(f"{group_text(group)} has {progress.counts.open} members that have not ended")
    await services.groups.close_group(group)
    is_gone = await _remove_members(services, group)
    left = 0 if is_gone else (await services.groups.get_progress(group)).counts.total
    if is_gone:
        await write_audit_entry(request, principal, "group.remove", group_text(group), {"tasks": progress.counts.total})
    return json_response(RemovedView(group_text(group), is_gone, left))


async def _remove_members(services: Services, group: GroupId) -> bool:
    for _ in range(MOST // PAGE):
        if await services.groups.remove_members(group):
            return True
    return False


async def _change_members(change: Change, start: TaskId) -> BulkView:
    tally, after, seen = Tally(), start, 0
    next_start: TaskId | None = start
    while next_start is not None and seen < MOST:
        applied, next_start = await change(after)
        tally.add_changes(applied)
        after, seen = next_start or after, seen + PAGE
    return tally.bulk_view(next_start)


async def _audited_response(
    request: Request, principal: Principal, action: str, group: GroupId, view: BulkView
) -> Response:
    await write_audit_entry(
        request, principal, action, group_text(group), {"changed": view.changed, "refused": view.refused}
    )
    return json_response(view)
