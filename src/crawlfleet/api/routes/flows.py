"""Flows: a graph of tasks submitted in one call, looked at, cancelled, resumed and forgotten as a whole."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.errors import printable_text
from crawlfleet.api.http.idempotency import IdempotencyKey, make_body_claim
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Body, Cursor, Limit, Name, Text, parse_cursor
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.flows import FlowChangedView, FlowDetail, FlowPageView, flow_changed, flow_detail, flow_view
from crawlfleet.control.composites.flows import StepRequest
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import ids, limits
from crawlfleet.model.ids import GroupId, group_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Refusal
from crawlfleet.scheduling.flows.expressions import EXPRESSION_CHARS
from crawlfleet.wire.tasks import task_body, value_refusal

routes = RouteTable("flows", PREFIX)
Key = Annotated[Text, Field(max_length=limits.LABEL_CHARS)]
Expression = Annotated[Text, Field(min_length=1, max_length=EXPRESSION_CHARS)]
On = Literal["success", "failure", "always"]
TaskFields = Annotated[
    dict[str, Any],
    Field(
        description='A `TaskBody`, without `depends_on`. A `{"$from": expression}` anywhere in its parameters is '
        "replaced by the value when the step is released."
    ),
]


class StepBody(Body):
    task: TaskFields
    after: Annotated[
        dict[Key, On] | list[Key],
        Field(
            max_length=limits.PARENTS,
            description="Steps before it, and on which end of each it goes on; a list is of those that must complete.",
            default_factory=dict,
        ),
    ]
    when: Annotated[Expression | None, Field(description="It runs only when this is true of the steps before it.")] = (
        None
    )
    for_each: Annotated[
        Expression | Annotated[list[Any], Field(max_length=limits.FAN_OUT_MAX)] | None,
        Field(
            description="A list, or an expression that gives one: a task for each of its items, which see `item` "
            "and `index`."
        ),
    ] = None
    max_items: Annotated[int, Field(ge=1, le=limits.FAN_OUT_MAX)] = limits.FAN_OUT_DEFAULT
    allow_failures: Annotated[
        bool, Field(description="Of a `for_each`: it completes even when some of its items do not.")
    ] = False


class FlowBody(Body):
    name: Name | None = None
    project_id: Name | None = None
    steps: Annotated[dict[Key, StepBody], Field(min_length=1, max_length=limits.FLOW_STEPS)]


async def _flow_in_path(
    flow_id: Annotated[
        str, Path(json_schema_extra={"pattern": "^group-[0-9a-f]{16}$", "example": "group-0123456789abcdef"})
    ],
) -> GroupId:
    try:
        return ids.parse_id(flow_id, "group", field="flow_id")
    except InvalidInput:
        raise NotFound(f"no flow {printable_text(flow_id)[: limits.NAME_CHARS]!r}") from None


FlowInPath = Annotated[GroupId, Depends(_flow_in_path)]


@routes.post("/flows", FlowDetail, status=201, name="submit")
async def submit_flow(
    body: FlowBody,
    request: Request,
    services: TheServices,
    idempotency_key: IdempotencyKey = None,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Store a whole graph of tasks, or nothing of it. Steps that wait for nobody are ready at once."""
    # Read first: what cannot be kept cannot be hashed either.
    steps = {name: _parse_step(name, step) for name, step in body.steps.items()}
    claim = make_body_claim("flows", principal, idempotency_key, body, services.clock.now())
    added = await services.flows.submit_flow(body.name, body.project_id, steps, claim)
    if not added.is_replay:
        await write_audit_entry(request, principal, "flow.submit", group_text(added.id), {"steps": len(steps)})
    view = flow_detail(await services.flows.get_flow(added.id))
    headers = {"Location": f"{PREFIX}/flows/{view.id}"} | ({"Idempotency-Replayed": "true"} if added.is_replay else {})
    return json_response(view, 201, headers)


@routes.get("/flows", ResponseSpec(FlowPageView, "Newest first."))
async def list_flows(
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    project_id: Annotated[Name | None, Query()] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    flows = await services.flows.list_flows(limit, parse_cursor(cursor, "group"), project_id)
    next_cursor = group_text(flows[-1].group.id) if len(flows) == limit else None
    return json_response(FlowPageView([flow_view(flow) for flow in flows], next_cursor))


@routes.get("/flows/{flow_id}", FlowDetail, name="show")
async def show_flow(flow: FlowInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """The graph, with the state of every step."""
    return json_response(flow_detail(await services.flows.get_flow(flow)))


@routes.post("/flows/{flow_id}:cancel", FlowChangedView, name="cancel")
async def cancel_flow(
    flow: FlowInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Cancel every task of it that has not ended; what runs is stopped on its node."""
    applied = await services.flows.cancel_flow(flow)
    await write_audit_entry(request, principal, "flow.cancel", group_text(flow), {"changed": len(applied.after)})
    return json_response(flow_changed(flow, applied))


@routes.post("/flows/{flow_id}:resume", FlowChangedView, name="resume")
async def resume_flow(
    flow: FlowInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Run again what failed, took too long or was cancelled, and what could not run because of it. What completed
    stays."""
    applied = await services.flows.resume_flow(flow)
    await write_audit_entry(request, principal, "flow.resume", group_text(flow), {"changed": len(applied.after)})
    return json_response(flow_changed(flow, applied))


@routes.delete("/flows/{flow_id}", status=204, name="drop")
async def remove_flow(
    flow: FlowInPath, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Forget a flow that has ended, with its tasks and all of their history."""
    gone = await services.flows.drop_flow(flow)
    await write_audit_entry(request, principal, "flow.drop", group_text(flow), {"tasks": len(gone)})
    return empty_response()


def _parse_step(key: str, step: StepBody) -> StepRequest:
    field = f"steps.{printable_text(key)[:64]}"
    task = task_body(step.task)
    if isinstance(task, Refusal):
        raise InvalidInput(task.detail, field=f"{field}.task.{task.field}" if task.field else f"{field}.task")
    if isinstance(step.for_each, list) and (refusal := value_refusal(step.for_each, f"{field}.for_each")):
        raise InvalidInput(refusal.detail, field=refusal.field)
    after = step.after if isinstance(step.after, dict) else dict.fromkeys(step.after, "success")
    return StepRequest(task, dict(after), step.when, step.for_each, step.max_items, step.allow_failures)
