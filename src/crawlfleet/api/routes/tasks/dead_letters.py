"""Dead letters: listed, grouped by cause, looked at, played again, dropped."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import Query, Request
from pydantic import Field, model_validator
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, audited
from crawlfleet.api.http.errors import refused_task
from crawlfleet.api.http.parameters import PAGE_USUAL, Body, Cursor, Label, Limit, Name, TaskInPath, Text, cursor_id
from crawlfleet.api.http.responses import ResponseSpec, nothing, reply
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
    def _one_of_them(self) -> Self:
        if (self.ids is None) == (self.cause is None):
            raise ValueError("give either ids or cause")
        return self


@routes.get("/dead-letters", ResponseSpec(DeadLetterPageView, "Newest first."))
async def list_letters(
    services: TheServices,
    limit: Limit = PAGE_USUAL,
    cursor: Cursor = None,
    cause: Annotated[Cause | None, Query()] = None,
    project_id: Project = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    letters = await services.dead_letters.list_letters(limit, cursor_id(cursor), cause, project_id)
    next_cursor = task_text(letters[-1].task) if len(letters) == limit else None
    return reply(DeadLetterPageView([letter_view(letter) for letter in letters], next_cursor))


@routes.get("/dead-letters:groups", ResponseSpec(CausesView, "Most frequent first."))
async def groups(services: TheServices, project_id: Project = None, _: Principal = allow(Role.VIEWER)) -> Response:
    found = await services.dead_letters.list_causes(project_id)
    return reply(CausesView([cause_view(group) for group in found]))


@routes.get("/dead-letters/{task_id}", DeadLetterDetail)
async def show(task: TaskInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """A dead letter with its task and every execution it had."""
    letter = await _known_letter(services, task)
    record, found = await services.task_reader.get_task(task), await services.task_reader.list_executions(task)
    views = [execution_view(one, record.status) for one in found]
    return reply(DeadLetterDetail(letter_view(letter), task_view(record, found), views))


@routes.post("/dead-letters/{task_id}:replay", ChangedView)
async def replay(
    task: TaskInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Open the next round of its task."""
    await _known_letter(services, task)
    applied = await services.dead_letters.replay_letters([task])
    if task in applied.refused:
        return refused_task(task, applied.refused[task])
    await audited(request, principal, "dead_letter.replay", task_text(task))
    return reply(changed_view(task, applied))


@routes.post("/dead-letters:replay", BulkView)
async def replay_many(
    body: LettersBody, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Open the next round of many. A cause that no dead letter has is a 404."""
    if body.cause is not None:
        await _known_cause(services, body.cause)
        count = await services.dead_letters.replay_cause(body.cause)
        view = BulkView(count, {"pending": count} if count else {}, 0, [], None)
    else:
        view = await _replayed(services, body.ids or [])
    said = {"cause": body.cause, "changed": view.changed, "refused": view.refused}
    await audited(request, principal, "dead_letters.replay", "dead-letters", said)
    return reply(view)


@routes.post("/dead-letters:drop", BulkView)
async def drop_many(
    body: LettersBody, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Forget many, with their tasks and all of their history. A cause that no dead letter has is a 404."""
    tally, before = Tally(), None
    if body.cause is not None:
        await _known_cause(services, body.cause)
        while letters := await services.dead_letters.list_letters(_IDS_MOST, before, body.cause):
            await _drop(services, [letter.task for letter in letters], tally)
            before = letters[-1].task
    else:
        tasks = _parsed(body.ids or [])
        found = [task for task in tasks if await _letter(services, task) is not None]
        await _drop(services, found, tally)
        tally.add(Applied(refused={task: _NO_LETTER for task in tasks if task not in set(found)}))
    view = tally.view(None)
    said = {"cause": body.cause, "changed": view.changed, "refused": view.refused}
    await audited(request, principal, "dead_letters.drop", "dead-letters", said)
    return reply(view)


async def _drop(services: Services, tasks: list[TaskId], tally: Tally) -> None:
    applied = await services.dead_letters.drop_letters(tasks) if tasks else Applied()
    tally.add(applied)


@routes.delete("/dead-letters/{task_id}", status=204)
async def drop(
    task: TaskInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Forget it, with its task and all of its history."""
    await _known_letter(services, task)
    applied = await services.dead_letters.drop_letters([task])
    if task in applied.refused:
        return refused_task(task, applied.refused[task])
    await audited(request, principal, "dead_letter.drop", task_text(task))
    return nothing()


async def _replayed(services: Services, texts: list[str]) -> BulkView:
    tasks = _parsed(texts)
    found = [task for task in tasks if await _letter(services, task) is not None]
    tally = Tally()
    if found:
        tally.add(await services.dead_letters.replay_letters(found))
    tally.add(Applied(refused={task: _NO_LETTER for task in tasks if task not in set(found)}))
    return tally.view(None)


def _parsed(texts: list[str]) -> dict[TaskId, None]:
    return dict.fromkeys(ids.parse_id(text, "task", field=f"ids[{at}]") for at, text in enumerate(texts))


async def _known_cause(services: Services, cause: str) -> None:
    if not await services.dead_letters.has_cause(cause):
        raise NotFound(f"no dead letter has the cause {cause!r}")


async def _known_letter(services: Services, task: TaskId) -> DeadLetter:
    letter = await _letter(services, task)
    if letter is None:
        raise NotFound(f"{task_text(task)} is no dead letter")
    return letter


async def _letter(services: Services, task: TaskId) -> DeadLetter | None:
    # The page that would begin with it.
    letters = await services.dead_letters.list_letters(1, task + 1)
    return letters[0] if letters and letters[0].task == task else None
