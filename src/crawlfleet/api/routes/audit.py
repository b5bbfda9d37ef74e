"""The audit log, for admins: who changed what, when and from where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import Query
from starlette.responses import Response

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Limit
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.principal import AuditEntry, Principal, Role

routes = RouteTable("audit", PREFIX)

Before = Annotated[int | None, Query(ge=1, le=(1 << 63) - 1, description="`next_before` of the page before.")]


class AuditView(msgspec.Struct, frozen=True):
    id: int
    at: Time
    role: str | None
    name: str
    token: int | None
    node_id: str | None
    address: str
    action: str
    target: str
    details: Mapping[str, Any]


class AuditPage(msgspec.Struct, frozen=True):
    entries: list[AuditView]
    next_before: int | None


@routes.get("/audit", AuditPage, name="page")
async def list_audit_entries(
    services: TheServices, limit: Limit = DEFAULT_PAGE_RECORDS, before: Before = None, _: Principal = allow(Role.ADMIN)
) -> Response:
    """Newest first."""
    entries = await services.audit.list_entries(limit, before)
    next_before = entries[-1].id if len(entries) == limit else None
    return json_response(AuditPage([_audit_view(entry) for entry in entries], next_before))


def _audit_view(entry: AuditEntry) -> AuditView:
    return AuditView(
        entry.id,
        to_text(entry.at),
        None if entry.role is None else entry.role.word,
        entry.name,
        entry.token,
        None if entry.node is None else node_text(entry.node),
        entry.address,
        entry.action,
        entry.target,
        entry.details,
    )
