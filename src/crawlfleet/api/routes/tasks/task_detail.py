"""One task, looked at: what everybody who waits for a task does, so a plain route."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from starlette.responses import Response

from crawlfleet.api.http.auth import principal_of
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import known_id, only_query
from crawlfleet.api.http.responses import reply
from crawlfleet.api.http.route_table import RouteTable, describe_parameter
from crawlfleet.api.http.services import Services, services_of
from crawlfleet.api.http.shutdown import is_stopping
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import TaskView, task_view, with_result
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.ids import ExecutionId, TaskId, task_text
from crawlfleet.model.principal import Role
from crawlfleet.model.task import TaskRecord

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
)
async def show(request: PlainRequest) -> Response:
    await principal_of(request, Role.VIEWER)
    only_query(request, "wait_s")
    task = known_id(request.path_params["task_id"], "task")
    wait_s = _wait_s(request)
    services = services_of(request)
    if wait_s and not is_stopping(request):
        await _wait_for_end(services, task, wait_s)
    record, found = await asyncio.gather(known_task(services, task), services.store.task_executions(task))
    progress = await progress_of(services, found)
    view = task_view(record, found, progress.get(record.execution or 0))
    if record.group is not None and record.status.is_final and record.execution is None:
        # It may be a step of a flow, which gathered what its items gave without running itself.
        view = with_result(view, await services.store.unrun_result(task))
    return reply(view)


async def known_task(services: Services, task: TaskId) -> TaskRecord:
    record = (await services.store.load_tasks([task])).get(task)
    if record is None:
        raise NotFound(f"no task {task_text(task)}")
    return record


async def progress_of(services: Services, executions: Sequence[ExecutionRecord]) -> Mapping[ExecutionId, bytes]:
    """Of those that run, as their nodes told it last."""
    running = [one.id for one in executions if one.status is None]
    return await services.broker.progress.load_progress(running) if running else {}


def _wait_s(request: PlainRequest) -> float:
    said = request.query_params.get("wait_s")
    if said is None:
        return 0.0
    try:
        wait_s = float(said)
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= WAIT_MOST_S:
        raise InvalidInput(f"a number of seconds from 0 to {WAIT_MOST_S:g}", field="wait_s")
    return wait_s


async def _wait_for_end(services: Services, task: TaskId, wait_s: float) -> None:
    with services.task_completions.watch_task(task) as waiter:
        if not (await known_task(services, task)).status.is_final:
            await services.task_completions.wait_for_end(waiter, wait_s)
