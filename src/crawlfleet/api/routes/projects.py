"""Projects: their weight and quotas, what of these is used, and what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Body, Cursor, Limit, Text
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time
from crawlfleet.control.admin.projects import ProjectReport
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.limits import NAME_CHARS
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.project import WEIGHT_DEFAULT, WEIGHT_MAX, WEIGHT_MIN, OnFull, Project

routes = RouteTable("projects", PREFIX)

ProjectName = Annotated[Text, Path(min_length=1, max_length=NAME_CHARS, description="What tasks say as `project_id`.")]
Tasks = Annotated[int, Field(ge=0, le=10**12)]
Fetched = Annotated[int, Field(ge=0, le=10**15)]
Amount = Annotated[float, Field(ge=0, le=10**12, allow_inf_nan=False)]
_COUNTED = {
    "max_waiting": "waiting",
    "max_running": "running",
    "cpu": "cpu",
    "memory_mb": "memory_mb",
    "pages_per_day": "pages_per_day",
    "bytes_per_day": "bytes_per_day",
}


class ProjectBody(Body):
    """What is left out stays as it is; null is the default again, and for a quota no limit."""

    weight: Annotated[float, Field(ge=WEIGHT_MIN, le=WEIGHT_MAX, allow_inf_nan=False)] | None = None
    """Its share of the fleet beside other projects that have work of the same priority; 1 when nobody says."""
    max_waiting: Tasks | None = None
    """Tasks that wait: a submit that would bring it above is refused."""
    max_running: Tasks | None = None
    """Tasks on nodes at one time; 0 stops the project from starting any."""
    cpu: Amount | None = None
    """Cores reserved by its tasks at one time."""
    memory_mb: Amount | None = None
    pages_per_day: Fetched | None = None
    """Requests that its tasks may send on a day (UTC), robots.txt and redirects included; 0 stops the project."""
    bytes_per_day: Fetched | None = None
    """Of bodies that its tasks may read on a day, as they come over the wire."""
    on_full: Literal["wait", "refuse"] | None = None
    """What becomes of a new task that `max_running`, `cpu`, `memory_mb` or the day has no room for, and of a running
    one that the day has nothing left for."""
    expected_version: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    """Refuse the change when another one came before it."""


class QuotaView(msgspec.Struct, frozen=True):
    limit: float | None
    """null: none."""
    used: float
    left: float | None


class DayQuotaView(msgspec.Struct, frozen=True):
    limit: int | None
    """null: none."""
    used: int
    """Of this day (UTC), with what running tasks were granted and have not fetched yet. Counted only while the project
    has a daily quota."""
    left: int | None
    renews_at: Time
    """When the next day begins."""


class QuotasView(msgspec.Struct, frozen=True):
    waiting: QuotaView
    running: QuotaView
    cpu: QuotaView
    memory_mb: QuotaView
    pages_per_day: DayQuotaView
    bytes_per_day: DayQuotaView


class ProjectView(msgspec.Struct, frozen=True):
    name: str
    weight: float
    on_full: str
    """wait, or refuse: what becomes of a task that the daily quotas or those on running tasks have no room for."""
    quotas: QuotasView
    version: int
    """0: nobody described it, and it has the defaults."""
    changed_at: Time | None


class ProjectPage(msgspec.Struct, frozen=True):
    projects: list[ProjectView]
    next_cursor: str | None


@routes.get("/projects", ResponseSpec(ProjectPage, "Those that are described or have open tasks, by name."))
async def list_projects(
    services: TheServices, limit: Limit = DEFAULT_PAGE_RECORDS, cursor: Cursor = None, _: Principal = allow(Role.VIEWER)
) -> Response:
    reports = [
        report for report in await services.projects.list_reports() if cursor is None or report.project.name > cursor
    ]
    page = [_project_view(report) for report in reports[:limit]]
    return json_response(ProjectPage(page, page[-1].name if len(reports) > limit else None))


@routes.get("/projects/{name:path}", ProjectView, name="show")
async def show_project(name: ProjectName, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """404 for a project that nobody described and that has no open tasks."""
    return json_response(_project_view(await services.projects.get_report(name)))


@routes.put("/projects/{name:path}", ProjectView, name="put")
async def put_project(
    request: Request,
    name: ProjectName,
    body: ProjectBody,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Describe a project, or change it. A quota below what is running stops nothing; nothing new starts."""
    changes = body.model_dump(exclude_unset=True)
    expected = changes.pop("expected_version", None)
    await services.projects.change_project(name, lambda have: _changed_project(have, changes), expected)
    await write_audit_entry(request, principal, "project.put", name, changes)
    return json_response(_project_view(await services.projects.get_report(name)))


@routes.delete("/projects/{name:path}", status=204, name="drop")
async def remove_project(
    request: Request, name: ProjectName, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """It has the defaults again: weight 1, no quotas. Its tasks stay."""
    await services.projects.reset_project(name)
    await write_audit_entry(request, principal, "project.delete", name)
    return empty_response()


def _changed_project(have: Project, changes: dict[str, Any]) -> Project:
    quotas = {quota: changes[field] for field, quota in _COUNTED.items() if field in changes}
    weight, on_full = changes.get("weight", have.weight), changes.get("on_full", have.on_full.word)
    return replace(
        have,
        weight=WEIGHT_DEFAULT if weight is None else weight,
        on_full=OnFull[(on_full or OnFull.WAIT.word).upper()],
        quotas=replace(have.quotas, **quotas),
    )


def _project_view(report: ProjectReport) -> ProjectView:
    project, use, today, renews_at = report
    limits, reserved = project.quotas, use.held.reserved
    quotas = QuotasView(
        _quota_view(limits.waiting, use.waiting),
        _quota_view(limits.running, use.held.running),
        _quota_view(limits.cpu, reserved.get("cpu", 0.0)),
        _quota_view(limits.memory_mb, reserved.get("memory_mb", 0.0)),
        _day_quota_view(limits.pages_per_day, today.pages, renews_at),
        _day_quota_view(limits.bytes_per_day, today.bytes, renews_at),
    )
    changed_at = None if project.changed_at is None else to_text(project.changed_at)
    return ProjectView(project.name, project.weight, project.on_full.word, quotas, project.version, changed_at)


def _quota_view(limit: float | None, used: float) -> QuotaView:
    return QuotaView(limit, used, None if limit is None else max(0, limit - used))


def _day_quota_view(limit: int | None, used: int, renews_at: Instant) -> DayQuotaView:
    return DayQuotaView(limit, used, None if limit is None else max(0, limit - used), to_text(renews_at))
