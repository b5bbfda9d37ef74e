"""The log level of the master that answers: shown, and changed while it runs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Request
from pydantic import AfterValidator, Field
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import Body
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.model.principal import Principal, Role
from crawlfleet.observe.log_level import LEVELS, parse_level

routes = RouteTable("log_level", PREFIX)

Level = Annotated[
    str,
    Field(max_length=10, examples=["debug"], json_schema_extra={"pattern": f"^(?i:{'|'.join(LEVELS)})$"}),
    AfterValidator(parse_level),
]


class LogLevelBody(Body):
    level: Level | None
    """debug, info, warning, error or critical; null: as all masters have it."""


class LogLevelView(msgspec.Struct, frozen=True):
    master: str
    """The master that answered."""
    level: str
    """In effect: `own`, or else `masters`, or else `started_with`."""
    own: str | None
    """Set for this master alone, until it ends."""
    masters: str | None
    """Set for all masters: `log_level_masters` in the configuration of cluster `default`."""
    started_with: str


@routes.get("/log-level", LogLevelView, name="show")
async def show_log_level(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    return json_response(_log_level_view(services))


@routes.put("/log-level", LogLevelView, name="set")
async def set_log_level(
    request: Request, body: LogLevelBody, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """Of this master alone, until it ends. `log_level_masters` in the configuration of cluster `default` is of all
    masters, and `log_level_nodes` in that of any cluster is of its nodes; both last."""
    services.log_level.set_own(body.level)
    await write_audit_entry(request, principal, "log_level.set", services.name, {"level": body.level})
    return json_response(_log_level_view(services))


def _log_level_view(services: Services) -> LogLevelView:
    level = services.log_level
    return LogLevelView(services.name, level.effective, level.own, level.shared, level.started_with)
