"""Silences: times in which a person wants no notices of some alerts."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import (
    DEFAULT_PAGE_RECORDS,
    Body,
    Limit,
    Moment,
    Text,
    parse_instant,
    parse_path_id,
)
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.routes.tokens import parse_span_ms
from crawlfleet.api.views.alerts import SilenceList, SilenceView, silence_text, silence_view
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("silences", PREFIX)

Pattern = Annotated[Text, Field(min_length=1, max_length=limits.NAME_CHARS)]
SilenceId = Annotated[Text, Path(max_length=limits.LABEL_CHARS)]


class SilenceBody(Body):
    matchers: Annotated[dict[Annotated[Text, Field(max_length=20)], Pattern], Field(min_length=1, max_length=4)]
    """Patterns by field: `rule`, `scope`, `severity`, `parent` (the cluster of a node). `*` stands for any text."""
    until_at: Moment | None = None
    lasts: Annotated[Text, Field(max_length=20, examples=["2h"])] | None = None
    """In place of `until_at`: 90s, 15m, 24h, 7d, 2w from its start."""
    starts_at: Moment | None = None
    """null: now."""
    why: Annotated[Text, Field(min_length=1, max_length=limits.MESSAGE_CHARS)]


@routes.get("/silences", SilenceList)
async def list_silences(
    services: TheServices, limit: Limit = DEFAULT_PAGE_RECORDS, _: Principal = allow(Role.VIEWER)
) -> Response:
    """Newest first, also those that are over, for 30 days."""
    now = services.clock.now()
    return json_response(
        SilenceList([silence_view(silence, now) for silence in await services.alerts.list_silences(limit)])
    )


@routes.post("/silences", SilenceView, status=201, name="add")
async def add_silence(
    request: Request, body: SilenceBody, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Alerts that all of its matchers match send nothing until it ends. Afterwards nothing is sent again that was sent
    before it."""
    if (body.until_at is None) == (body.lasts is None):
        raise InvalidInput("give one of until_at and lasts", field="until_at")
    now = services.clock.now()
    starts_at = parse_instant("starts_at", body.starts_at)
    until_at = parse_instant("until_at", body.until_at)
    if until_at is None:
        assert body.lasts is not None
        until_at = (now if starts_at is None else starts_at) + parse_span_ms(body.lasts, field="lasts")
    silence = await services.alerts.add_silence(body.matchers, starts_at, until_at, body.why, principal.name)
    details = {"matchers": body.matchers, "why": body.why}
    await write_audit_entry(request, principal, "silence.add", silence_text(silence.id), details)
    return json_response(silence_view(silence, now), status=201)


@routes.delete("/silences/{silence_id}", SilenceView, name="end")
async def end_silence(
    request: Request, silence_id: SilenceId, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """End a silence now. It stays in the list; ending it again changes nothing."""
    silence = await services.alerts.end_silence(parse_path_id(silence_id, "silence"))
    await write_audit_entry(request, principal, "silence.end", silence_id)
    return json_response(silence_view(silence, services.clock.now()))
