"""One task, looked at: what everybody who waits for a task does, so a plain route."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from crawlfleet.api.http.auth import require_principal
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import check_query_names, parse_path_id
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable, describe_parameter
from crawlfleet.api.http.services import Services, get_services
from crawlfleet.api.http.shutdown import is_stopping
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import TaskView, task_view, with_result
from crawlfleet.errors import InvalidInput
from crawlfleet.model.ids import TaskId
from crawlfleet.model.principal import Role

routes = RouteTable("tasks", PREFIX)
WAIT_MOST_S = 30.0


@routes.plain(
    "GET",
    "/tasks/{task_id}",
    TaskView,
    summary="Show",
    description="A task. With `wait_s`, answered as soon as it has ended, or when the time is over as it is then.",
    parameters=[
        describe_parameter(
            "task_id",
            "path",
            "The task's id.",
            {"type": "string", "pattern": "^task-[0-9a-f]{16}$", "example": "task-0123456789abcdef"},
        ),
        describe_parameter(
            "wait_s",
            "query",
            "Wait so long for the task to end.",
            {"type": "number", "minimum": 0, "maximum": WAIT_MOST_S, "default": 0.0},
        ),
    ],
    name="show",
)
async def show_task(request: PlainRequest) -> Response:
    await require_principal(request, Role.VIEWER)
    check_query_names(request, "wait_s")
    task = parse_path_id(request.path_params["task_id"], "task")
    wait_s = _parse_wait_s(request)
    services = get_services(request)
    if wait_s and not is_stopping(request):
        await _wait_for_end(services, task, wait_s)
    reader = services.task_reader
    record, executions = await asyncio.gather(reader.get_task(task), reader.list_executions(task))
    progress = await reader.get_progress(executions)
    view = task_view(record, executions, progress.get(record.execution or 0))
    if record.group is not None and record.status.is_final and record.execution is None:
        # It may be a step of a flow, which gathered what its items gave without running itself.
        view = with_result(view, await reader.get_unrun_result(task))
    return json_response(view)


def _parse_wait_s(request: PlainRequest) -> float:
    text = request.query_params.get("wait_s")
    if text is None:
        return 0.0
    try:
        wait_s = float(text)
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= WAIT_MOST_S:
        raise InvalidInput(f"a number of seconds from 0 to {WAIT_MOST_S:g}", field="wait_s")
    return wait_s


async def _wait_for_end(services: Services, task: TaskId, wait_s: float) -> None:
    with services.task_completions.watch_task(task) as waiter:
        if not (await services.task_reader.get_task(task)).status.is_final:
            await services.task_completions.wait_for_end(waiter, wait_s)
