"""Alerts and their notices: what fires, since when and why; acknowledged by a person."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Body, Cursor, Limit, Text, parse_cursor
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.alerts import (
    AcknowledgedView,
    AlertList,
    AlertWord,
    NoticePage,
    NoticeWord,
    acknowledgement_view,
    alert_view,
    notice_text,
    notice_view,
)
from crawlfleet.model import limits
from crawlfleet.model.alerts.alert import AlertStatus
from crawlfleet.model.principal import Principal, Role
from crawlfleet.ports.alert_store import NoticeStatus

routes = RouteTable("alerts", PREFIX)

RuleFilter = Annotated[Text | None, Query(max_length=limits.LABEL_CHARS, description="Only of this rule.")]
ChannelFilter = Annotated[Text | None, Query(max_length=limits.LABEL_CHARS, description="Only for this channel.")]


class AcknowledgeBody(Body):
    rule: Annotated[Text, Field(min_length=1, max_length=limits.LABEL_CHARS)]
    scope: Annotated[Text, Field(min_length=1, max_length=limits.HOST_CHARS)] = "*"
    why: Annotated[Text, Field(max_length=limits.MESSAGE_CHARS)] = ""


@routes.get("/alerts", AlertList)
async def list_alerts(
    services: TheServices,
    rule: RuleFilter = None,
    status: Annotated[AlertWord | None, Query(description="Only in this status.")] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Alerts that are not ok: those that fire first. Each says why no notice of it is sent, if none is."""
    wanted = None if status is None else AlertStatus.of_word(status)
    views = [alert_view(report) for report in await services.alerts.list_alerts(rule, wanted)]
    return json_response(AlertList(views, sum(view.fired_at is not None for view in views)))


@routes.post("/alerts:acknowledge", AcknowledgedView, name="acknowledge")
async def acknowledge_alert(
    request: Request, body: AcknowledgeBody, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """No more notices of an alert until it recovers; that it recovered is sent. 409 for one that does not fire."""
    state = await services.alerts.acknowledge(body.rule, body.scope, principal.name, body.why)
    await write_audit_entry(request, principal, "alert.acknowledge", f"{body.rule} {body.scope}", {"why": body.why})
    acknowledgement = acknowledgement_view(state)
    assert acknowledgement is not None
    return json_response(AcknowledgedView(state.rule, state.scope, acknowledgement))


@routes.get("/notices", NoticePage, name="notices")
async def list_notices(
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    channel: ChannelFilter = None,
    status: Annotated[NoticeWord | None, Query(description="Only in this status.")] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Notices, newest first, with the words of the service they were sent to; kept for 30 days."""
    before = parse_cursor(cursor, "notice")
    wanted = None if status is None else NoticeStatus.of_word(status)
    notices = await services.alerts.list_notices(limit, before, channel, wanted)
    next_cursor = notice_text(notices[-1].id) if len(notices) == limit else None
    return json_response(NoticePage([notice_view(notice) for notice in notices], next_cursor))
