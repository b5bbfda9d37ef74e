"""The device dialect: how devices get tasks, and report what became of them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Query, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from crawlfleet.api.dialects.device_bodies import AssignDevice, TaskReport
from crawlfleet.api.dialects.device_registry import PREFIX
from crawlfleet.api.dialects.device_task_views import (
    DeviceAssigned,
    PulledTasks,
    TaskReported,
    pulled_task_view,
    task_word,
)
from crawlfleet.api.dialects.device_views import device_name
from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.errors import TooLarge, refusal_response, task_refusal_response
from crawlfleet.api.http.node_access import find_node, require_own_node
from crawlfleet.api.http.parameters import Body, Label, TaskInPath
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.http.shutdown import is_stopping
from crawlfleet.api.routes.tasks.task_filters import split_commas
from crawlfleet.control.nodes.execution_reports import ExecutionReport
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.ids import execution_text, parse_id, task_text
from crawlfleet.model.node import WAIT_S_MAX, WANT_MAX, Node, PullFilter
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, TaskStatus

routes = RouteTable("devices", PREFIX)
NO_STORE = {"Cache-Control": "no-store"}
Words = Annotated[list[Label], BeforeValidator(split_commas), Field(max_length=limits.LABELS)]
_ENDS = {
    "completed": End.COMPLETED,
    "success": End.COMPLETED,
    "failed": End.FAILED,
    "error": End.FAILED,
    "timeout": End.TIMED_OUT,
    "cancelled": End.RETURNED,
    "pending": End.RETURNED,
}
"""How an execution ended, by the word of a report. A stop that was ordered is decided by the order."""


class PullQuery(Body):
    device_id: Label = Field(description="The device that pulls: its device id, or the node's id.")
    # A query has only text: a number is written as one there.
    max_tasks: Annotated[int, Field(ge=1, le=WANT_MAX, strict=False)] = 1
    max_priority: Annotated[int, Field(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX, strict=False)] = (
        limits.PRIORITY_MAX
    )
    categories: Words = Field(default_factory=list, description="Only tasks of one of these categories.")
    task_types: Words = Field(default_factory=list, description="Only tasks of these types.")
    wait_s: Annotated[float, Field(ge=0, le=WAIT_S_MAX, strict=False)] = 0.0


@routes.get("/tasks/pull", ResponseSpec(PulledTasks, "What there is to do.", {"Cache-Control": "Always `no-store`."}))
async def pull_tasks(
    request: Request,
    query: Annotated[PullQuery, Query()],
    services: TheServices,
    principal: Principal = allow(Role.NODE, Role.OPERATOR),
) -> Response:
    """Get tasks to run. With `wait_s` the call waits for them. What a device has and has not reported as `running` is
    given again, under the same `execution_id`, should an answer have been lost; a device that pulls in several threads
    therefore reports `running` within three seconds. A new pull of a device ends the one before."""
    device = await find_named_device(services, query.device_id)
    await require_own_node(request, principal, device.id, "node.pull")
    wanted = PullFilter(query.max_priority, tuple(sorted(set(query.task_types))), tuple(sorted(set(query.categories))))
    wait_s = 0.0 if is_stopping(request) else query.wait_s
    pulled = await services.pull.pull_tasks(device.id, query.max_tasks, wanted, wait_s)
    view = PulledTasks([pulled_task_view(task) for task in pulled.tasks], pulled.next_s)
    return json_response(view, 200, NO_STORE)


@routes.put("/tasks/{task_id}/status", TaskReported, name="report_task")
async def report_task(
    task: TaskInPath,
    request: Request,
    body: TaskReport,
    services: TheServices,
    principal: Principal = allow(Role.NODE, Role.OPERATOR),
) -> Response:
    """Report a task as running, ended, stopped or handed back. 409 `stale_execution`: the task is no longer this
    device's under this `execution_id`; stop it. The same report again is accepted again."""
    report = ExecutionReport(
        task,
        parse_id(body.execution_id, "exec", field="execution_id"),
        _ENDS.get(body.status),
        body.error_message,
        ErrorClass.of_word(body.error_class),
        _encode_json(body.result, "result", limits.RESULT_BYTES) if body.status in ("completed", "success") else None,
        _encode_json(body.metrics, "metrics", limits.METRICS_BYTES),
        _encode_json(body.progress, "progress", limits.PROGRESS_BYTES),
    )
    answer = await services.execution_reports.apply_report(principal.node, report)
    if isinstance(answer, TaskStatus):
        return json_response(TaskReported(task_text(task), task_word(answer), True))
    if answer.code is Code.WRONG_NODE:
        await write_audit_entry(request, principal, "execution.refused", execution_text(report.execution))
    if answer.code is Code.STALE_EXECUTION:
        named = execution_text(report.execution)
        detail = f"{named} is not the live execution of {task_text(task)}: stop it and drop its result"
        return refusal_response(Refusal(answer.code, detail, "execution_id"))
    return task_refusal_response(task, answer)


@routes.put("/tasks/{task_id}/assign", DeviceAssigned, name="assign_task")
async def assign_task(
    task: TaskInPath,
    body: AssignDevice,
    request: Request,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Give a pending task to a device of your choice, if it could run it. The device gets it with its next pull."""
    await services.task_reader.get_task(task)
    device = await find_named_device(services, body.device_id)
    assigned = await services.assign.assign_task(task, device.id)
    if isinstance(assigned, Refusal):
        return task_refusal_response(task, assigned)
    details = {"device_id": device_name(device)}
    await write_audit_entry(request, principal, "task.assign", task_text(task), details)
    word = task_word(TaskStatus.ASSIGNED)
    return json_response(DeviceAssigned(task_text(task), device_name(device), execution_text(assigned), word))


async def find_named_device(services: Services, name: str) -> Node:
    """Return the device that a query or a body names. Raises InvalidInput."""
    try:
        return await find_node(services, name)
    except NotFound as exc:
        raise InvalidInput("no device has this id", field="device_id") from exc


def _encode_json(value: Any, field: str, max_bytes: int) -> bytes | None:
    """Encode a value that the client sent; it is stored as it is. Raises InvalidInput and TooLarge."""
    if value is None:
        return None
    try:
        encoded = msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError) as exc:
        raise InvalidInput("has a number, a text or a depth that cannot be stored", field=field) from exc
    if len(encoded) > max_bytes:
        raise _FieldTooLarge(field, max_bytes)
    return encoded


class _FieldTooLarge(TooLarge):
    def __init__(self, field: str, max_bytes: int) -> None:
        super().__init__(f"at most {max_bytes} bytes of JSON")
        self.field = field
