"""Target hosts: one budget each over the whole installation, and how they answer."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Body, Limit, Moment, Text, parse_instant
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.hosts import HostFiguresView, HostHistory, figures_view, history_view
from crawlfleet.api.views.tasks import Time
from crawlfleet.control.admin.hosts import HostReport
from crawlfleet.model import limits
from crawlfleet.model.host import HostLimits
from crawlfleet.model.host_stats import SPANS
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.ports.host_store import HostFilter
from crawlfleet.scheduling.hosts.budgets import CONCURRENCY_MAX, DELAY_S_MAX, RATE_MAX, RATE_MIN, Source

routes = RouteTable("hosts", PREFIX)
POINTS = 500

HostName = Annotated[Text, Field(min_length=1, max_length=limits.HOST_CHARS)]
HostInPath = Annotated[HostName, Path(description="A name or an address, with its port where that is an unusual one.")]


class BudgetBody(Body):
    """What is left out, or null, has its default."""

    rate: Annotated[float, Field(ge=RATE_MIN, le=RATE_MAX)] | None = None
    """Requests a second; above one the whole part counts."""
    concurrency: Annotated[int, Field(ge=1, le=CONCURRENCY_MAX)] | None = None
    """Requests under way at once."""
    delay_s: Annotated[float, Field(ge=0, le=DELAY_S_MAX)] | None = None
    """Between any two requests; it comes before what robots.txt asks for."""


class BudgetView(msgspec.Struct, frozen=True):
    rate: float
    """Requests a second."""
    rate_from: Source
    """host: a person set it for this one; back-off: less than that for a while, after refusals."""
    concurrency: int
    concurrency_from: Source
    delay_s: float
    """Between any two requests."""
    delay_from: Source


class HostView(msgspec.Struct, frozen=True):
    name: str
    budget: BudgetView
    """Of all nodes together."""
    rate_now: float
    """Requests a second, as last counted."""
    requests: int
    refused: int
    """Answered with 429 or 503."""
    blocked: int
    """Answered with 403."""
    is_backing_off: bool
    backoff_until: Time | None
    """Nobody asks it anything before that."""
    backoff_reason: str | None
    backoff_level: int
    """How often it refused in a row; one less for each quiet minute."""
    set_by: str | None
    set_at: Time | None


class HostHolder(msgspec.Struct, frozen=True):
    node_id: str
    session: int
    rate: int
    concurrency: int
    may_use_rate: int
    """With what was cut of it and may still be in use."""
    may_use_concurrency: int


class HostWaiter(msgspec.Struct, frozen=True):
    node_id: str
    session: int
    wanted: int
    """Requests that could leave now, at least half of them."""


class HostDetail(msgspec.Struct, frozen=True):
    host: HostView
    holders: list[HostHolder]
    waiting: list[HostWaiter]
    figures: HostFiguresView
    """What was counted of it, over all nodes."""


class HostPage(msgspec.Struct, frozen=True):
    hosts: list[HostView]
    next_cursor: str | None


class ForgivenView(msgspec.Struct, frozen=True):
    name: str
    has_changed: bool


@routes.get("/hosts", ResponseSpec(HostPage, "By name."))
async def list_hosts(
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Annotated[HostName | None, Query(description="`next_cursor` of the page before.")] = None,
    q: Annotated[HostName | None, Query(description="A part of the name.")] = None,
    backing_off: Annotated[bool | None, Query(description="Only those in back-off, or only the others.")] = None,
    is_set: Annotated[bool | None, Query(alias="set", description="Only those with a budget set by a person.")] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Hosts that were asked for something, or have a budget of their own."""
    where = HostFilter(q.lower() if q else None, backing_off, is_set)
    reports = await services.hosts.list_hosts(where, limit, cursor)
    next_cursor = reports[-1].host.name if len(reports) == limit else None
    return json_response(HostPage([_host_view(report) for report in reports], next_cursor))


@routes.get("/hosts/{host}", HostDetail, name="show")
async def show_host(host: HostInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """Its budget and where each part of it comes from, how it answers, which nodes hold parts and which wait."""
    return json_response(_host_detail(await services.hosts.get_host(host)))


@routes.get("/hosts/{host}/history", HostHistory, name="history")
async def show_host_history(
    host: HostInPath,
    services: TheServices,
    span: Annotated[Literal["minute", "hour"], Query(description="Of each point.")] = "minute",
    since: Annotated[Moment | None, Query(description="The oldest point; else as far back as there are any.")] = None,
    until: Annotated[Moment | None, Query(description="Points before that; else before now.")] = None,
    limit: Annotated[int, Query(ge=1, le=POINTS, description="The newest so many.")] = POINTS,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """What was counted of a host, over all nodes: minutes of six hours, hours of two weeks. `*`: of all hosts."""
    bounds = parse_instant("since", since), parse_instant("until", until)
    name, points = await services.hosts.list_counts(host, SPANS[span], *bounds, limit)
    return json_response(history_view(name, span, points, services.clock.now()))


@routes.put("/hosts/{host}", HostDetail, name="put")
async def put_host(
    host: HostInPath,
    body: BudgetBody,
    request: Request,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Set its budget, over all nodes. What is left out has its default."""
    host_limits = HostLimits(body.rate, body.concurrency, body.delay_s)
    report = await services.hosts.set_budget(host, host_limits, principal)
    await write_audit_entry(request, principal, "host.put", report.host.name, body.model_dump())
    return json_response(_host_detail(report))


@routes.delete("/hosts/{host}", HostDetail, name="reset")
async def reset_host(
    host: HostInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Back to the defaults; what was learned of the host stays."""
    report = await services.hosts.reset_budget(host, principal)
    await write_audit_entry(request, principal, "host.reset", report.host.name)
    return json_response(_host_detail(report))


@routes.post("/hosts/{host}:forgive", ForgivenView, name="forgive")
async def forgive_host(
    host: HostInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """End its back-off now."""
    has_changed = await services.hosts.end_backoff(host)
    await write_audit_entry(request, principal, "host.forgive", host)
    return json_response(ForgivenView(await _stored_name(services, host), has_changed))


async def _stored_name(services: Services, host: str) -> str:
    return (await services.hosts.get_host(host)).host.name


def _host_view(report: HostReport) -> HostView:
    host, budget, backoff = report.host, report.budget, report.host.backoff
    return HostView(
        host.name,
        BudgetView(
            budget.rate,
            budget.rate_from,
            budget.concurrency,
            budget.concurrency_from,
            budget.delay_s,
            budget.delay_from,
        ),
        host.recent_milli / 1000,
        host.requests,
        host.refused,
        host.blocked,
        report.is_backing_off,
        to_text(backoff.until) if report.is_backing_off else None,
        backoff.reason or None,
        backoff.level,
        host.set_by,
        None if host.set_at is None else to_text(host.set_at),
    )


def _host_detail(report: HostReport) -> HostDetail:
    holders = [
        HostHolder(node_text(share.node), share.session, *share.current, *share.may_use)
        for share in report.shares
        if any(share.may_use)
    ]
    waiting = [
        HostWaiter(node_text(share.node), share.session, share.wanted)
        for share in report.shares
        if share.wanted and not share.current
    ]
    return HostDetail(_host_view(report), holders, waiting, figures_view(report))
