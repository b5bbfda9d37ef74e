"""Tasks: looked at, listed, and changed one at a time."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.errors import task_refusal_response
from crawlfleet.api.http.parameters import (
    DEFAULT_PAGE_RECORDS,
    MAX_PAGE_RECORDS,
    Body,
    Cursor,
    Label,
    Limit,
    Name,
    TaskInPath,
    find_node_id,
    parse_cursor,
)
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.tasks.task_filters import TaskWhere, split_commas
from crawlfleet.api.views.tasks import (
    ChangedView,
    ExecutionsView,
    StatsView,
    TaskPageView,
    WhyView,
    changed_view,
    execution_view,
    stats_view,
    task_view,
    why_view,
)
from crawlfleet.model import limits
from crawlfleet.model.ids import TaskId, execution_text, made_at, node_text, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Refusal
from crawlfleet.ports.task_store import Applied

routes = RouteTable("tasks", PREFIX)


class TaskPageQuery(TaskWhere):
    # A query has only text: a number is written as one there.
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_RECORDS, strict=False)] = DEFAULT_PAGE_RECORDS
    cursor: str | None = Field(None, description="`next_cursor` of the page before.")
    include: Annotated[list[Literal["parameters"]], BeforeValidator(split_commas)] = Field(
        default_factory=list,
        max_length=limits.LABELS,
        description="What else to show of each task: a page is bounded in bytes, and is shorter with it.",
    )


class PriorityBody(Body):
    priority: Annotated[int, Field(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)]


class AssignBody(Body):
    node: Annotated[Label, Field(description="The node's id, or its device id.")]


@routes.get("/tasks", ResponseSpec(TaskPageView, "Newest first."))
async def list_tasks(
    query: Annotated[TaskPageQuery, Query()], services: TheServices, _: Principal = allow(Role.VIEWER)
) -> Response:
    """Newest first, without parameters unless they are asked for. What no index knows (`q`, `type`, `queue`, `node`) is
    searched for a bounded way back per page."""
    where = await query.resolve_filter(services)
    with_parameters = "parameters" in query.include
    page = await services.task_reader.find_tasks(
        where, query.limit, parse_cursor(query.cursor), query.q, with_parameters=with_parameters
    )
    return json_response(
        TaskPageView(
            [task_view(record, with_parameters=with_parameters) for record in page.tasks],
            None if page.before is None else task_text(page.before),
            None if page.searched_to is None else to_text(made_at(page.searched_to)),
        )
    )


@routes.get("/tasks:stats", StatsView, name="stats")
async def count_tasks(
    services: TheServices, project_id: Annotated[Name | None, Query()] = None, _: Principal = allow(Role.VIEWER)
) -> Response:
    """Tasks by status, from counters: exact, and as quick with millions as with none."""
    return json_response(stats_view(await services.task_reader.count_tasks(project_id)))


@routes.get("/tasks/{task_id}/executions", ResponseSpec(ExecutionsView, "Oldest first."), name="executions")
async def list_executions(
    task: TaskInPath,
    services: TheServices,
    limit: Limit = MAX_PAGE_RECORDS,
    cursor: Cursor = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Every attempt at a task, with its result."""
    record = await services.task_reader.get_task(task)
    executions = await services.task_reader.page_executions(task, limit, parse_cursor(cursor, "exec") or 0)
    progress = await services.task_reader.get_progress(executions)
    return json_response(
        ExecutionsView(
            [execution_view(execution, record.status, progress.get(execution.id)) for execution in executions],
            execution_text(executions[-1].id) if executions.has_more else None,
        )
    )


@routes.get("/tasks/{task_id}/why", WhyView, name="why")
async def explain_task(task: TaskInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """Why a task is where it is: a sentence, and the same as data."""
    return json_response(why_view(task, await services.why.explain_task(task)))


@routes.patch("/tasks/{task_id}", ChangedView)
async def change_priority(
    task: TaskInPath,
    body: PriorityBody,
    request: Request,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Change the priority of a task that has not ended."""
    applied = await services.task_changes.reprioritize_tasks([task], body.priority)
    if task in applied.refused:
        return task_refusal_response(task, applied.refused[task])
    await write_audit_entry(request, principal, "task.prioritize", task_text(task), {"priority": body.priority})
    return json_response(changed_view(task, applied, priority=body.priority))


@routes.post(
    "/tasks/{task_id}:cancel",
    ResponseSpec(ChangedView, "Cancelled."),
    other_responses={202: ResponseSpec(ChangedView, "Its node was asked to stop it.")},
    name="cancel",
)
async def cancel_task(
    task: TaskInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Final at once while no node has it; otherwise when the node has stopped it, or its lease has ended. One that
    became a flow (`batch_products`, `full_sync`) is cancelled with all of its steps."""
    applied = await services.shop_flows.cancel_tasks([task])
    if task in applied.refused:
        return task_refusal_response(task, applied.refused[task])
    await write_audit_entry(request, principal, "task.cancel", task_text(task))
    is_requested = not applied.after[task].is_final
    return json_response(changed_view(task, applied, is_requested=is_requested), 202 if is_requested else 200)


@routes.post("/tasks/{task_id}:retry", ChangedView, name="retry")
async def retry_task(
    task: TaskInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Open the next round of a task that has ended."""
    return await _changed_response(
        request, principal, "task.retry", task, await services.task_changes.retry_tasks([task])
    )


@routes.post("/tasks/{task_id}:assign", ChangedView, name="assign")
async def assign_task(
    task: TaskInPath,
    body: AssignBody,
    request: Request,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Give a pending task to a node of your choice, if it is one that could run it."""
    await services.task_reader.get_task(task)
    node = await find_node_id(services.node_reader, body.node)
    assigned = await services.assign.assign_task(task, node)
    if isinstance(assigned, Refusal):
        return task_refusal_response(task, assigned)
    await write_audit_entry(request, principal, "task.assign", task_text(task), {"node": node_text(node)})
    return json_response(ChangedView(task_text(task), "assigned", assigned_node=node_text(node)))


async def _changed_response(
    request: Request, principal: Principal, action: str, task: TaskId, applied: Applied
) -> Response:
    if task in applied.refused:
        return task_refusal_response(task, applied.refused[task])
    await write_audit_entry(request, principal, action, task_text(task))
    return json_response(changed_view(task, applied))
