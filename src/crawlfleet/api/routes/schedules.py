"""Schedules: made, listed, changed, paused, run by hand, removed."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Query, Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.errors import Malformed, UnsupportedMediaType, printable_text, refusal_response
from crawlfleet.api.http.idempotency import IdempotencyKey, make_claim
from crawlfleet.api.http.parameters import (
    DEFAULT_PAGE_RECORDS,
    Cursor,
    Label,
    Limit,
    Name,
    ScheduleInPath,
    parse_cursor,
)
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.schedules import SchedulePageView, ScheduleView, schedule_view
from crawlfleet.api.views.tasks import AcceptedView, accepted_view
from crawlfleet.control.composites.schedules import Refused
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import schedule_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Refusal
from crawlfleet.ports.schedule_store import ScheduleFilter
from crawlfleet.wire import json_error_location
from crawlfleet.wire import schedules as wire
from crawlfleet.wire.tasks import TaskBody, refusal_from_error

routes = RouteTable("schedules", PREFIX)


class NewSchedule(wire.ScheduleBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task to be submitted `at` a time, `every_s` seconds, or by `cron` in a `time_zone`: exactly one of them."""

    task: TaskBody  # type: ignore[assignment]


class ScheduleChange(wire.ScheduleChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: TaskBody | msgspec.UnsetType = msgspec.UNSET  # type: ignore[assignment]


ScheduleChange.__doc__ = wire.ScheduleChange.__doc__
BodyT = TypeVar("BodyT", wire.ScheduleBody, wire.ScheduleChange)


@routes.post(
    "/schedules",
    ResponseSpec(ScheduleView, "Made.", {"Location": "Where it is."}),
    status=201,
    body=NewSchedule,
    name="create",
)
async def create_schedule(
    request: Request,
    services: TheServices,
    idempotency_key: IdempotencyKey = None,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Its task is checked now as if it were submitted; what is wrong with it is named `task.…`."""
    body, sent_fields = await _read_body(request, wire.ScheduleBody)
    claim = make_claim("schedules", principal, idempotency_key, sent_fields, services.clock.now())
    try:
        answer = await services.schedules.create_schedule(body, by=principal.name, claim=claim)
    except Refused as exc:
        return refusal_response(exc.refusal)
    view = schedule_view(answer.schedule, await services.schedules.load_runs(answer.schedule))
    headers = {"Location": f"{PREFIX}/schedules/{view.id}"}
    if answer.is_replay:
        headers["Idempotency-Replayed"] = "true"
    else:
        await write_audit_entry(
            request, principal, "schedule.create", view.id, {"name": view.name, "project": view.project_id}
        )
    return json_response(view, 201, headers)


@routes.get("/schedules", ResponseSpec(SchedulePageView, "Newest first."))
async def list_schedules(
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    project_id: Annotated[Name | None, Query()] = None,
    task_type: Annotated[Label | None, Query()] = None,
    is_paused: Annotated[bool | None, Query()] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    where = ScheduleFilter(project_id, task_type, is_paused)
    schedules = await services.schedules.list_schedules(where, limit, parse_cursor(cursor, "schedule"))
    next_cursor = schedule_text(schedules[-1].id) if schedules.has_more else None
    return json_response(SchedulePageView([schedule_view(schedule) for schedule in schedules], next_cursor))


@routes.get("/schedules/{schedule_id}", ScheduleView, name="show")
async def show_schedule(schedule: ScheduleInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """A schedule with its next runs and what became of its last ones."""
    record = await services.schedules.get_schedule(schedule)
    return json_response(schedule_view(record, await services.schedules.load_runs(record)))


@routes.patch("/schedules/{schedule_id}", ScheduleView, body=ScheduleChange, name="change")
async def change_schedule(
    schedule: ScheduleInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """What is left out stays. With other times it goes on from now; ticks that had their turn do not come again."""
    body, _ = await _read_body(request, wire.ScheduleChange)
    try:
        record = await services.schedules.change_schedule(schedule, body)
    except Refused as exc:
        return refusal_response(exc.refusal)
    fields = sorted(wire.change_fields(body))
    await write_audit_entry(request, principal, "schedule.change", schedule_text(schedule), {"fields": fields})
    return json_response(schedule_view(record, await services.schedules.load_runs(record)))


@routes.post("/schedules/{schedule_id}:pause", ScheduleView, name="pause")
async def pause_schedule(
    schedule: ScheduleInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Its ticks pass by; tasks that it made go on."""
    record = await services.schedules.pause_schedule(schedule)
    await write_audit_entry(request, principal, "schedule.pause", schedule_text(schedule))
    return json_response(schedule_view(record))


@routes.post("/schedules/{schedule_id}:resume", ScheduleView, name="resume")
async def resume_schedule(
    schedule: ScheduleInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """From now on: what passed by is not caught up."""
    record = await services.schedules.resume_schedule(schedule)
    await write_audit_entry(request, principal, "schedule.resume", schedule_text(schedule))
    return json_response(schedule_view(record))


@routes.post(
    "/schedules/{schedule_id}:run",
    ResponseSpec(AcceptedView, "Stored.", {"Location": "Where the task is."}),
    status=201,
    name="run",
)
async def run_schedule(
    schedule: ScheduleInPath,
    request: Request,
    services: TheServices,
    idempotency_key: IdempotencyKey = None,
    force: Annotated[bool, Query(description="Also while another task of it goes on, which is left alone.")] = False,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """A task now, outside of its ticks, paused or not. While another one of it goes on, `overlap` says what happens:
    `skip` and `queue` refuse it (409), `cancel_previous` cancels that one."""
    claimed_value = [schedule_text(schedule), force]
    claim = make_claim("schedule runs", principal, idempotency_key, claimed_value, services.clock.now())
    try:
        answer = await services.schedules.run_schedule(schedule, is_forced=force, claim=claim)
    except Refused as exc:
        return refusal_response(exc.refusal)
    if isinstance(answer.item, Refusal):
        return refusal_response(answer.item)
    view = accepted_view(answer.item)
    headers = {"Location": f"{PREFIX}/tasks/{view.id}"}
    if answer.is_replay:
        headers["Idempotency-Replayed"] = "true"
    else:
        await write_audit_entry(
            request, principal, "schedule.run", schedule_text(schedule), {"task": view.id, "force": force}
        )
    return json_response(view, 201, headers)


@routes.delete("/schedules/{schedule_id}", status=204, name="remove")
async def remove_schedule(
    schedule: ScheduleInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Tasks that it made stay, and go on."""
    await services.schedules.remove_schedule(schedule)
    await write_audit_entry(request, principal, "schedule.remove", schedule_text(schedule))
    return empty_response()


async def _read_body(request: Request, kind: type[BodyT]) -> tuple[BodyT, Any]:
    """The body, and what was said in it. By msgspec, so that a template is kept as it was written."""
    sent = request.headers.get("content-type", "application/json")
    if sent.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType(
            f"the body must be application/json, not {printable_text(sent)[: limits.NAME_CHARS]}"
        )
    raw = await request.body()
    if (complaint := json_error_location.find_decode_error(raw)) is not None:
        raise Malformed(f"the body is not valid JSON: {complaint}")
    try:
        return msgspec.json.decode(raw, type=kind), msgspec.json.decode(raw)
    except msgspec.ValidationError as exc:
        refusal = refusal_from_error(exc, kind)
        raise InvalidInput(refusal.detail, field=refusal.field or "body") from exc
