"""Dead letters: listed, grouped by cause, looked at, played again, dropped."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import Query, Request
from pydantic import Field, model_validator
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.errors import task_refusal_response
from crawlfleet.api.http.parameters import (
    DEFAULT_PAGE_RECORDS,
    Body,
    Cursor,
    Label,
    Limit,
    Name,
    TaskInPath,
    Text,
    parse_cursor,
)
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.tasks.bulk import Tally
from crawlfleet.api.views.dead_letters import CausesView, DeadLetterDetail, DeadLetterPageView, cause_view, letter_view
from crawlfleet.api.views.tasks import BulkView, ChangedView, changed_view, execution_view, task_view
from crawlfleet.errors import NotFound
from crawlfleet.model import ids, limits
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.task import DeadLetter
from crawlfleet.ports.task_store import Applied

routes = RouteTable("dead-letters", PREFIX)
Project = Annotated[Name | None, Query()]
Cause = Annotated[Text, Field(min_length=1, max_length=limits.MESSAGE_CHARS)]
_IDS_MOST = 1_000
_NO_LETTER = Refusal(Code.UNKNOWN_TASK, "is no dead letter")


class LettersBody(Body):
    """Either `ids` or `cause`."""

    ids: Annotated[list[Label], Field(min_length=1, max_length=_IDS_MOST)] | None = None
    cause: Cause | None = None

    @model_validator(mode="after")
    def _require_ids_or_cause(self) -> Self:
        if (self.ids is None) == (self.cause is None):
            raise ValueError("give either ids or cause")
        return self


@routes.get("/dead-letters", ResponseSpec(DeadLetterPageView, "Newest first."), name="list_letters")
async def list_dead_letters(
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    cause: Annotated[Cause | None, Query()] = None,
    project_id: Project = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    letters = await services.dead_letters.list_letters(limit, parse_cursor(cursor), cause, project_id)
    next_cursor = task_text(letters[-1].task) if len(letters) == limit else None
    return json_response(DeadLetterPageView([letter_view(letter) for letter in letters], next_cursor))


@routes.get("/dead-letters:groups", ResponseSpec(CausesView, "Most frequent first."), name="groups")
async def list_causes(services: TheServices, project_id: Project = None, _: Principal = allow(Role.VIEWER)) -> Response:
    causes = await services.dead_letters.list_causes(project_id)
    return json_response(CausesView([cause_view(group) for group in causes]))


@routes.get("/dead-letters/{task_id}", DeadLetterDetail, name="show")
async def show_dead_letter(task: TaskInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """A dead letter with its task and every execution it had."""
    letter = await _get_letter(services, task)
    record, executions = await services.task_reader.get_task(task), await services.task_reader.list_executions(task)
    views = [execution_view(execution, record.status) for execution in executions]
    return json_response(DeadLetterDetail(letter_view(letter), task_view(record, executions), views))


@routes.post("/dead-letters/{task_id}:replay", ChangedView, name="replay")
async def replay_dead_letter(
    task: TaskInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Open the next round of its task."""
    await _get_letter(services, task)
    applied = await services.dead_letters.replay_letters([task])
    if task in applied.refused:
        return task_refusal_response(task, applied.refused[task])
    await write_audit_entry(request, principal, "dead_letter.replay", task_text(task))
    return json_response(changed_view(task, applied))


@routes.post("/dead-letters:replay", BulkView, name="replay_many")
async def replay_dead_letters(
    body: LettersBody, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Open the next round of many. A cause that no dead letter has is a 404."""
    if body.cause is not None:
        await _require_cause(services, body.cause)
        count = await services.dead_letters.replay_cause(body.cause)
        view = BulkView(count, {"pending": count} if count else {}, 0, [], None)
    else:
        view = await _replay_tasks(services, body.ids or [])
    details = {"cause": body.cause, "changed": view.changed, "refused": view.refused}
    await write_audit_entry(request, principal, "dead_letters.replay", "dead-letters", details)
    return json_response(view)


@routes.post("/dead-letters:drop", BulkView, name="drop_many")
async def drop_dead_letters(
    body: LettersBody, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Forget many, with their tasks and all of their history. A cause that no dead letter has is a 404."""
    tally, before = Tally(), None
    if body.cause is not None:
        await _require_cause(services, body.cause)
        while letters := await services.dead_letters.list_letters(_IDS_MOST, before, body.cause):
            await _drop_tasks(services, [letter.task for letter in letters], tally)
            before = letters[-1].task
    else:
        tasks = _parse_task_ids(body.ids or [])
        letters_found = [task for task in tasks if await _find_letter(services, task) is not None]
        await _drop_tasks(services, letters_found, tally)
        tally.add_changes(Applied(refused={task: _NO_LETTER for task in tasks if task not in set(letters_found)}))
    view = tally.bulk_view(None)
    details = {"cause": body.cause, "changed": view.changed, "refused": view.refused}
    await write_audit_entry(request, principal, "dead_letters.drop", "dead-letters", details)
    return json_response(view)


async def _drop_tasks(services: Services, tasks: list[TaskId], tally: Tally) -> None:
    applied = await services.dead_letters.drop_letters(tasks) if tasks else Applied()
    tally.add_changes(applied)


@routes.delete("/dead-letters/{task_id}", status=204, name="drop")
async def drop_dead_letter(
    task: TaskInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Forget it, with its task and all of its history."""
    await _get_letter(services, task)
    applied = await services.dead_letters.drop_letters([task])
    if task in applied.refused:
        return task_refusal_response(task, applied.refused[task])
    await write_audit_entry(request, principal, "dead_letter.drop", task_text(task))
    return empty_response()


async def _replay_tasks(services: Services, texts: list[str]) -> BulkView:
    tasks = _parse_task_ids(texts)
    letters_found = [task for task in tasks if await _find_letter(services, task) is not None]
    tally = Tally()
    if letters_found:
        tally.add_changes(await services.dead_letters.replay_letters(letters_found))
    tally.add_changes(Applied(refused={task: _NO_LETTER for task in tasks if task not in set(letters_found)}))
    return tally.bulk_view(None)


def _parse_task_ids(texts: list[str]) -> dict[TaskId, None]:
    return dict.fromkeys(ids.parse_id(text, "task", field=f"ids[{index}]") for index, text in enumerate(texts))


async def _require_cause(services: Services, cause: str) -> None:
    if not await services.dead_letters.has_cause(cause):
        raise NotFound(f"no dead letter has the cause {cause!r}")


async def _get_letter(services: Services, task: TaskId) -> DeadLetter:
    letter = await _find_letter(services, task)
    if letter is None:
        raise NotFound(f"{task_text(task)} is no dead letter")
    return letter


async def _find_letter(services: Services, task: TaskId) -> DeadLetter | None:
    # The page that would begin with it.
    letters = await services.dead_letters.list_letters(1, task + 1)
    return letters[0] if letters and letters[0].task == task else None
