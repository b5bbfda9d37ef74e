"""The queue dialect below `/api`: a task queue with `type`, `params` and six status words, over the same services."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Path, Request
from pydantic import Field
from starlette.responses import Response

from crawlfleet.api.dialects.queue_bodies import (
    QueueBatch,
    QueueTask,
    read_batch,
    read_task,
    translate_field,
    translate_refusal,
)
from crawlfleet.api.dialects.queue_views import (
    QueueBatchAnswer,
    QueueCancelAnswer,
    QueueCancelled,
    QueueRefused,
    QueueSizes,
    QueueSubmitted,
    QueueTaskStats,
    QueueTaskView,
    batch_answer,
    queue_task_stats,
    queue_task_view,
)
from crawlfleet.api.dialects.time_window import WindowInQuery
from crawlfleet.api.http.auth import allow, require_principal, write_audit_entry
from crawlfleet.api.http.errors import printable_text, refusal_response
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import Body, Text, check_query_names
from crawlfleet.api.http.responses import JSON, ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable, describe_parameter
from crawlfleet.api.http.services import Services, TheServices, get_services
from crawlfleet.api.routes.tasks.bulk import PAGE
from crawlfleet.api.routes.tasks.submit import (
    KEY,
    KEY_PARAMETER,
    batch_refusal_response,
    check_media_type,
    replay_headers,
    submit_bodies,
    submit_shop_flow,
)
from crawlfleet.api.views.tasks import item_view
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import ids, limits
from crawlfleet.model.figures.task_figures import ALL, TYPE, empty_row, series_name
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.queue import PriorityClasses
from crawlfleet.model.refusal import Code, Refusal

PREFIX = "/api"
NOT_FOUND = "Task not found"
routes = RouteTable("queue-dialect", PREFIX)
_REPLAYED = {"Idempotency-Replayed": "`true` when the first answer is given again."}


class QueueTaskIds(Body):
    task_ids: Annotated[list[Text], Field(min_length=1, max_length=limits.BATCH_TASKS)]


@routes.plain(
    "POST",
    "/tasks",
    ResponseSpec(QueueSubmitted, "Stored.", _REPLAYED),
    name="submit",
    summary="Submit a task",
    description="Answered once it is on disk.",
    parameters=[KEY_PARAMETER],
    body=QueueTask,
)
async def submit_task(request: PlainRequest) -> Response:
    principal = await require_principal(request, Role.OPERATOR)
    check_query_names(request)
    check_media_type(request, JSON)
    services = get_services(request)
    body = read_task(await request.body(), await _load_classes(services))
    if isinstance(body, Refusal):
        return _refusal_response(body)
    if services.shop_flows.may_be_flow(body):
        try:
            flow = await submit_shop_flow(request, principal, body)
        except InvalidInput as exc:
            raise InvalidInput(exc.detail, field=translate_field(exc.field)) from exc
        if flow is not None:
            headers = {"Idempotency-Replayed": "true"} if flow.is_replay else {}
            return json_response(QueueSubmitted(task_text(flow.task.id)), 200, headers)
    answer = await submit_bodies(request, principal, [body], is_atomic=False)
    (item,) = answer.items
    if isinstance(item, Refusal):
        return _refusal_response(item)
    return json_response(QueueSubmitted(task_text(item.id)), 200, replay_headers(answer))


@routes.plain(
    "POST",
    "/tasks/batch",
    ResponseSpec(QueueBatchAnswer, "The ids of what was stored, in order.", _REPLAYED),
    name="submit_batch",
    summary="Submit up to 10,000 tasks",
    description="`atomic` (the default) stores all or none (422, with one answer per task in `tasks`); without it "
    "those that are right are stored, and `results` has an answer for each.",
    parameters=[KEY_PARAMETER],
    body=QueueBatch,
    schemas=(QueueRefused, QueueSubmitted),
)
async def submit_batch(request: PlainRequest) -> Response:
    principal = await require_principal(request, Role.OPERATOR)
    check_query_names(request)
    check_media_type(request, JSON)
    bodies, is_atomic = read_batch(await request.body(), await _load_classes(get_services(request)))
    answer = await submit_bodies(request, principal, bodies, is_atomic=is_atomic)
    items = [translate_refusal(item) if isinstance(item, Refusal) else item for item in answer.items]
    bad = [item for item in items if isinstance(item, Refusal)]
    if bad and all(item.code is Code.IDEMPOTENCY_MISMATCH for item in bad):
        return refusal_response(bad[0], field=KEY)
    if bad and is_atomic:
        return batch_refusal_response(items, [item_view(item) for item in items])
    return json_response(batch_answer(items, is_atomic=is_atomic), 200, replay_headers(answer))


@routes.plain(
    "GET",
    "/tasks/{task_id}",
    QueueTaskView,
    name="show",
    summary="Show",
    description="A task, with its result or its error.",
    parameters=[describe_parameter("task_id", "path", "The task's id.", {"type": "string"})],
)
async def show_task(request: PlainRequest) -> Response:
    await require_principal(request, Role.VIEWER)
    check_query_names(request)
    task = _parse_task_id(request.path_params["task_id"])
    reader = get_services(request).task_reader
    try:
        record, executions = await asyncio.gather(reader.get_task(task), reader.list_executions(task))
    except NotFound as exc:
        raise NotFound(NOT_FOUND) from exc
    is_unrun = record.group is not None and record.status.is_final and record.execution is None
    return json_response(queue_task_view(record, executions, await reader.get_unrun_result(task) if is_unrun else None))


# Before the route of one task, which has a path of the same form.
@routes.post("/tasks/batch/cancel", QueueCancelAnswer, name="cancel_batch")
async def cancel_batch(
    body: QueueTaskIds, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Cancel up to 10,000 tasks. One that cannot be cancelled does not hold up the others."""
    answer = QueueCancelAnswer([], [], {})
    tasks: dict[TaskId, str] = {}
    for text in body.task_ids:
        try:
            tasks[_parse_task_id(text)] = text
        except NotFound:
            answer.refused[printable_text(text)[: limits.NAME_CHARS]] = NOT_FOUND
    wanted = list(tasks)
    for start in range(0, len(wanted), PAGE):
        applied = await services.shop_flows.cancel_tasks(wanted[start : start + PAGE])
        for task, status in applied.after.items():
            (answer.cancelled if status.is_final else answer.cancelling).append(tasks[task])
        for task, refusal in applied.refused.items():
            answer.refused[tasks[task]] = NOT_FOUND if refusal.code is Code.UNKNOWN_TASK else refusal.detail
    changed = len(answer.cancelled) + len(answer.cancelling)
    details = {"ids": len(body.task_ids), "changed": changed, "refused": len(answer.refused)}
    await write_audit_entry(request, principal, "tasks.cancel", "tasks", details)
    return json_response(answer)


async def _task_in_path(task_id: Annotated[str, Path(description="The task's id.")]) -> TaskId:
    return _parse_task_id(task_id)


@routes.post("/tasks/{task_id}/cancel", QueueCancelled, name="cancel")
async def cancel_task(
    task: Annotated[TaskId, Depends(_task_in_path)],
    request: Request,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Cancel a task: at once while no node has it, otherwise when its node has stopped it."""
    applied = await services.shop_flows.cancel_tasks([task])
    if (refusal := applied.refused.get(task)) is not None:
        return _refusal_response(replace(refusal, detail=f"{task_text(task)}: {refusal.detail}"))
    await write_audit_entry(request, principal, "task.cancel", task_text(task))
    is_final = applied.after[task].is_final
    return json_response(QueueCancelled(task_text(task), "cancelled" if is_final else "cancelling"))


@routes.get("/stats", QueueSizes, name="sizes")
async def show_sizes(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """How many tasks wait, by priority class, from counters: as quick with millions as with none."""
    sizes = await services.figures.class_sizes()
    return json_response(QueueSizes(sizes["high"], sizes["normal"], sizes["low"], sizes["retry"]))


@routes.get("/stats/tasks", QueueTaskStats, name="task_stats")
async def show_task_stats(
    services: TheServices, window_ms: WindowInQuery, _: Principal = allow(Role.VIEWER)
) -> Response:
    """Executions started by type and tasks ended by status, since the installation began or in the last `window`."""
    totals = {name: total.figures for name, total in (await services.figures.load_totals(TYPE)).items()}
    if window_ms is None:
        every = (await services.figures.load_totals(ALL)).get(ALL)
        total = empty_row() if every is None else every.figures
    else:
        sums = await services.figures.sum_windows([ALL, *totals], window_ms)
        total = sums.pop(ALL)
        totals = sums
    by_type = {name.removeprefix(series_name(TYPE, "")): figures for name, figures in totals.items()}
    return json_response(queue_task_stats(total, by_type))


async def _load_classes(services: Services) -> PriorityClasses:
    """Return the priority classes of the installation, read from the store once a second at most."""
    await services.configure.refresh()
    return services.configure.cached_config(DEFAULT_CLUSTER).settings.priority_classes


def _parse_task_id(text: str) -> TaskId:
    try:
        return ids.parse_id(text, "task", field="task_id")
    except InvalidInput:
        raise NotFound(NOT_FOUND) from None


def _refusal_response(refusal: Refusal) -> Response:
    """Return the response for a refused task, with the dialect's fields and its words for an unknown task."""
    if refusal.code is Code.UNKNOWN_TASK:
        raise NotFound(NOT_FOUND)
    is_mismatch = refusal.code is Code.IDEMPOTENCY_MISMATCH
    return refusal_response(translate_refusal(refusal), field=KEY if is_mismatch else None)
