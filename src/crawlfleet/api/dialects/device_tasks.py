"""The device dialect: tasks are submitted and listed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from crawlfleet.api.dialects.device_registry import PREFIX
from crawlfleet.api.dialects.device_submissions import (
    DeviceTask,
    read_device_name,
    read_fields,
    translate_field,
    translate_refusal,
    translate_task,
)
from crawlfleet.api.dialects.device_task_views import (
    DeviceSubmitted,
    DeviceTaskPage,
    TaskWord,
    device_task_view,
    parse_task_word,
    task_word,
)
from crawlfleet.api.dialects.device_views import device_name
from crawlfleet.api.dialects.device_work import find_named_device
from crawlfleet.api.http.auth import allow, require_principal
from crawlfleet.api.http.errors import refusal_response
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import (
    DEFAULT_PAGE_RECORDS,
    MAX_PAGE_RECORDS,
    Body,
    Label,
    check_query_names,
    parse_cursor,
)
from crawlfleet.api.http.responses import JSON, ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices, get_services
from crawlfleet.api.routes.tasks.submit import (
    KEY,
    KEY_PARAMETER,
    check_media_type,
    replay_headers,
    submit_bodies,
    submit_shop_flow,
)
from crawlfleet.api.routes.tasks.task_filters import split_commas
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.ports.task_store import Accepted, TaskFilter

routes = RouteTable("devices", PREFIX)


class DeviceTaskQuery(Body):
    status: Annotated[list[TaskWord], BeforeValidator(split_commas)] = Field(
        default_factory=list, max_length=limits.LABELS
    )
    device_id: Label | None = Field(None, description="Only tasks that this device has, or had last.")
    task_type: Label | None = None
    # A query has only text: a number is written as one there.
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_RECORDS, strict=False)] = DEFAULT_PAGE_RECORDS
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")


@routes.plain(
    "POST",
    "/tasks",
    ResponseSpec(DeviceSubmitted, "Stored.", {"Idempotency-Replayed": "`true` when the first answer is given again."}),
    status=201,
    name="submit_task",
    summary="Submit a task",
    description="Answered once it is on disk. With `device_id` only that device runs it.",
    parameters=[KEY_PARAMETER],
    body=DeviceTask,
)
async def submit_task(request: PlainRequest) -> Response:
    principal = await require_principal(request, Role.OPERATOR)
    check_query_names(request)
    check_media_type(request, JSON)
    services = get_services(request)
    fields = read_fields(await request.body())
    name = read_device_name(fields)
    body = translate_task(fields, None if name is None else (await find_named_device(services, name)).id)
    if isinstance(body, Refusal):
        return refusal_response(body, field="body")
    if services.shop_flows.may_be_flow(body):
        try:
            flow = await submit_shop_flow(request, principal, body)
        except InvalidInput as exc:
            raise InvalidInput(exc.detail, field=None if exc.field is None else translate_field(exc.field)) from exc
        if flow is not None:
            return _submitted_response(flow.task, {"Idempotency-Replayed": "true"} if flow.is_replay else {})
    answer = await submit_bodies(request, principal, [body], is_atomic=False)
    (item,) = answer.items
    if isinstance(item, Refusal):
        field = KEY if item.code is Code.IDEMPOTENCY_MISMATCH else None
        return refusal_response(translate_refusal(item), field=field)
    return _submitted_response(item, replay_headers(answer))


def _submitted_response(task: Accepted, headers: dict[str, str]) -> Response:
    view = DeviceSubmitted(task_text(task.id), task_word(task.status), to_text(task.created_at))
    return json_response(view, 201, headers)


@routes.get("/tasks", ResponseSpec(DeviceTaskPage, "Newest first."), name="list_tasks")
async def list_tasks(
    query: Annotated[DeviceTaskQuery, Query()], services: TheServices, _: Principal = allow(Role.VIEWER)
) -> Response:
    """Newest first. What no index knows (`device_id`, `task_type`) is searched for a bounded way back per page: a page
    may be short, or empty, before the last."""
    device = None if query.device_id is None else await find_named_device(services, query.device_id)
    where = TaskFilter(
        statuses=tuple(parse_task_word(word) for word in dict.fromkeys(query.status)),
        task_type=query.task_type,
        node=None if device is None else device.id,
    )
    page = await services.task_reader.find_tasks(where, query.limit, parse_cursor(query.cursor))
    nodes = {record.node for record in page.tasks if record.node is not None}
    names = {node.id: device_name(node) for node in await services.node_reader.load_nodes(nodes)}
    total = sum((await services.task_reader.count_tasks()).values()) if where == TaskFilter() else None
    views = [device_task_view(record, names) for record in page.tasks]
    return json_response(DeviceTaskPage(views, None if page.before is None else task_text(page.before), total))
