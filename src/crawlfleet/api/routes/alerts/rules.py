"""Alert rules: the built-in ones, changed or turned off, and rules of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import Body, Text
from crawlfleet.api.http.responses import empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.alerts import PreviewView, RuleList, RuleView, SeverityWord, preview_view, rule_view
from crawlfleet.model import limits
from crawlfleet.model.principal import Principal, Role
from crawlfleet.scheduling.alerts.rule_changes import SAMPLES_MAX, SPAN_S_MAX, VALUE_MAX

routes = RouteTable("alert-rules", PREFIX)

RuleName = Annotated[Text, Path(min_length=1, max_length=limits.LABEL_CHARS)]
Value = Annotated[float, Field(ge=0, le=VALUE_MAX, allow_inf_nan=False)]
Span = Annotated[int, Field(ge=0, le=SPAN_S_MAX)]
ShortText = Annotated[Text, Field(max_length=limits.LABEL_CHARS)]


class HoursBody(Body):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    begin: Annotated[ShortText, Field(alias="from", examples=["08:00"])]
    until: Annotated[ShortText, Field(examples=["20:00"])]
    days: Annotated[list[Annotated[int, Field(ge=1, le=7)]], Field(min_length=1, max_length=7)] | None = None
    """1 is Monday."""
    time_zone: Annotated[ShortText, Field(examples=["Asia/Shanghai"])] = "UTC"


class RuleBody(Body):
    """What is left out stays as it is; null is the default again."""

    kind: ShortText | None = None
    """Of a rule of your own: the built-in rule whose measurement it takes."""
    scope: Annotated[Text, Field(max_length=limits.HOST_CHARS)] | None = None
    """`*`, a kind such as `project` for an alert each, or one such as `project:shop`."""
    threshold: Value | None = None
    clear: Value | None = None
    """The value from which it may recover; at most the threshold, or at least where it fires below."""
    for_s: Span | None = None
    keep_s: Span | None = None
    least_samples: Annotated[int, Field(ge=0, le=SAMPLES_MAX)] | None = None
    severity: SeverityWord | None = None
    channels: Annotated[list[ShortText], Field(max_length=limits.LABELS)] | None = None
    """Empty: all."""
    hours: HoursBody | None = None
    """When notices of it may be sent; null: always."""
    is_enabled: bool | None = None

    def changes(self) -> dict[str, Any]:
        values = self.model_dump(exclude_unset=True)
        if self.hours is not None:
            values["hours"] = self.hours.model_dump(by_alias=True, exclude_none=True)
        return values


@routes.get("/alerts/rules", RuleList)
async def list_rules(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """All rules as they are applied: the built-in ones first."""
    return json_response(RuleList([rule_view(report) for report in await services.alert_rules.list_rules()]))


@routes.get("/alerts/rules/{name}", RuleView, name="show")
async def show_rule(name: RuleName, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    return json_response(rule_view(await services.alert_rules.get_rule(name)))


@routes.put("/alerts/rules/{name}", RuleView, name="put")
async def put_rule(
    request: Request,
    name: RuleName,
    body: RuleBody,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Change a rule, or add one of your own, which needs a `kind`. It counts from the next measurement on."""
    changes = body.changes()

    def merge_values(before: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**before, **changes}

    report = await services.alert_rules.change_rule(name, merge_values, principal.name)
    await write_audit_entry(request, principal, "alert_rule.put", name, changes)
    return json_response(rule_view(report))


@routes.post("/alerts/rules/{name}:preview", PreviewView, name="preview")
async def preview_rule(
    name: RuleName,
    body: RuleBody,
    services: TheServices,
    scope: Annotated[Text | None, Query(max_length=limits.HOST_CHARS, description="One scope of the rule's.")] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """When the rule would have fired in the last six hours, with these values in place of its own. Nothing changes."""
    return json_response(preview_view(await services.alert_previews.preview_rule(name, body.changes(), scope)))


@routes.delete("/alerts/rules/{name}", status=204, name="drop")
async def remove_rule(
    request: Request, name: RuleName, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """A built-in rule has its defaults again; a rule of your own is removed, and its alerts with it."""
    await services.alert_rules.reset_rule(name)
    await write_audit_entry(request, principal, "alert_rule.delete", name)
    return empty_response()
