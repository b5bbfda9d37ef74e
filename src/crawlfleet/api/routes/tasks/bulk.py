"""The same change for many tasks: by their ids, or for everything a filter finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Self

from fastapi import Request
from pydantic import Field, model_validator
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import Body, Label, find_node_id, parse_cursor
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.tasks.task_filters import TaskWhere
from crawlfleet.api.views.tasks import REFUSALS_SHOWN, BulkView, RefusalView
from crawlfleet.model import ids, limits
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import LIVE_STATUSES, TaskStatus
from crawlfleet.ports.task_store import Applied

routes = RouteTable("tasks", PREFIX)
PAGE = 1_000
MOST = 100_000
"""Tasks looked at in one call: it must end before its caller gives up. The answer says where to go on."""

ASSIGNED_MOST = 1_000
"""Of tasks given to one node, which are looked at one by one: a node has room for few of them."""

Change = Callable[[Sequence[TaskId]], Awaitable[Applied]]


class Which(Body):
    """Either `ids` or `filter`."""

    ids: Annotated[list[Label], Field(min_length=1, max_length=limits.BATCH_TASKS)] | None = None
    filter: TaskWhere | None = None
    cursor: str | None = None
    """`next_cursor` of the answer before, with the same filter."""

    @model_validator(mode="after")
    def _require_ids_or_filter(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or filter")
        return self


class WhichAndPriority(Which):
    priority: Annotated[int, Field(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)]


class WhichAndNode(Which):
    node: Label
    """Its id, device id or name."""


class Tally:
    """What a change did so far."""

    def __init__(self) -> None:
        self.after: Counter[str] = Counter()
        self.refused = 0
        self.refusals: list[RefusalView] = []

    def add_changes(self, applied: Applied) -> None:
        self.after.update(status.word for status in applied.after.values())
        self.refused += len(applied.refused)
        for task, refusal in list(applied.refused.items())[: REFUSALS_SHOWN - len(self.refusals)]:
            self.refusals.append(_refusal_view(task, refusal))

    def bulk_view(self, next_cursor: TaskId | None) -> BulkView:
        cursor = None if next_cursor is None else task_text(next_cursor)
        return BulkView(self.after.total(), dict(self.after), self.refused, self.refusals, cursor)


@routes.post("/tasks:cancel", BulkView, name="cancel_many")
async def cancel_tasks(
    body: Which, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Cancel many. A filter without `status` means those that have not ended."""
    view = await _change_tasks(services, body, services.shop_flows.cancel_tasks, LIVE_STATUSES)
    return await _audited_response(request, principal, "tasks.cancel", body, view)


@routes.post("/tasks:retry", BulkView, name="retry_many")
async def retry_tasks(
    body: Which, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Open the next round of many. A filter without `status` means those that failed or took too long."""
    default_statuses = (TaskStatus.FAILED, TaskStatus.TIMEOUT)
    return await _audited_response(
        request,
        principal,
        "tasks.retry",
        body,
        await _change_tasks(services, body, services.task_changes.retry_tasks, default_statuses),
    )


@routes.post("/tasks:prioritize", BulkView, name="prioritize_many")
async def prioritize_tasks(
    body: WhichAndPriority, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Change the priority of many. A filter without `status` means those that have not ended."""

    async def change_priority(tasks: Sequence[TaskId]) -> Applied:
        return await services.task_changes.reprioritize_tasks(tasks, body.priority)

    return await _audited_response(
        request,
        principal,
        "tasks.prioritize",
        body,
        await _change_tasks(services, body, change_priority, LIVE_STATUSES),
    )


@routes.post("/tasks:assign", BulkView, name="assign_many")
async def assign_tasks(
    body: WhichAndNode, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Give many pending tasks to a node of your choice, as many as it has room for; the others are refused and stay
    pending. A filter without `status` means those that are pending."""
    node = await find_node_id(services.node_reader, body.node)

    async def assign_to_node(tasks: Sequence[TaskId]) -> Applied:
        applied = Applied()
        for task in tasks:
            assigned = await services.assign.assign_task(task, node)
            if isinstance(assigned, Refusal):
                applied.refused[task] = assigned
            else:
                applied.after[task] = TaskStatus.ASSIGNED
        return applied

    view = await _change_tasks(services, body, assign_to_node, (TaskStatus.PENDING,), max_tasks=ASSIGNED_MOST)
    return await _audited_response(request, principal, "tasks.assign", body, view)


async def _audited_response(
    request: Request, principal: Principal, action: str, body: Which, view: BulkView
) -> Response:
    details: dict[str, Any] = body.model_dump(exclude_unset=True, exclude={"ids"})
    if body.ids is not None:
        details["ids"] = len(body.ids)
    await write_audit_entry(
        request, principal, action, "tasks", {**details, "changed": view.changed, "refused": view.refused}
    )
    return json_response(view)


async def _change_tasks(
    services: Services, body: Which, change: Change, default_statuses: tuple[TaskStatus, ...], *, max_tasks: int = MOST
) -> BulkView:
    tally = Tally()
    if body.ids is not None:
        tasks = [ids.parse_id(text, "task", field=f"ids[{index}]") for index, text in enumerate(body.ids)]
        tasks = list(dict.fromkeys(tasks))
        for start in range(0, len(tasks), PAGE):
            tally.add_changes(await change(tasks[start : start + PAGE]))
        return tally.bulk_view(None)
    assert body.filter is not None
    body.filter.require_something("filter")
    where = await body.filter.resolve_filter(services, default_statuses)
    before, seen = parse_cursor(body.cursor), 0
    while seen < max_tasks:
        page = await services.task_reader.find_tasks(where, PAGE, before, body.filter.q)
        if page.tasks:
            tally.add_changes(await change([record.id for record in page.tasks]))
        # An empty page of a search has looked at many tasks too.
        seen, before = seen + max(len(page.tasks), PAGE), page.before
        if before is None:
            break
    return tally.bulk_view(before)


def _refusal_view(task: TaskId, refusal: Refusal) -> RefusalView:
    return RefusalView(task_text(task), str(refusal.code), refusal.detail)
