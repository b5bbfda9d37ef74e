"""Submitting tasks, one or thousands: plain routes, as they are the busiest after sync."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from starlette.responses import Response

from crawlfleet.api.http.auth import caller_address, require_principal, write_audit_entry
from crawlfleet.api.http.errors import (
    Malformed,
    UnsupportedMediaType,
    printable_text,
    problem_response,
    refusal_response,
)
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import check_query_names
from crawlfleet.api.http.responses import JSON, ResponseSpec, json_response, schema_ref
from crawlfleet.api.http.route_table import RouteTable, describe_parameter
from crawlfleet.api.http.services import get_services
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import AcceptedView, RefusedView, accepted_view, item_view
from crawlfleet.control.composites.shop_flows import SubmittedFlow
from crawlfleet.errors import InvalidInput, UsageError
from crawlfleet.model import limits
from crawlfleet.model.ids import group_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.ports.task_store import Accepted, SubmissionAnswer
from crawlfleet.wire import json_error_location
from crawlfleet.wire.tasks import TaskBody, read_task, read_tasks, refusal_from_error

LINES = "application/x-ndjson"
KEY = "Idempotency-Key"
routes = RouteTable("tasks", PREFIX)
KEY_PARAMETER = describe_parameter(
    KEY,
    "header",
    "The same key and body again, within a day, give the first answer again.",
    {"type": "string", "minLength": 1, "maxLength": limits.IDEMPOTENCY_KEY_CHARS},
)
_MODE_PARAMETER = describe_parameter(
    "mode",
    "query",
    "Before the mode in the body; the only place for it with lines.",
    {"type": "string", "enum": ["atomic", "each"]},
)
_JSON_HEADER, _KEY_HEADER, _TRACE_HEADER = JSON.encode(), KEY.lower().encode(), b"traceparent"


class BatchBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: msgspec.Raw
    mode: Literal["atomic", "each"] = "each"


_batch = msgspec.json.Decoder(BatchBody).decode


class TaskBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Up to 10,000 tasks: `atomic` takes all or none of them, `each` those that are right."""

    tasks: list[TaskBody]
    mode: Literal["atomic", "each"] = "each"


class BatchAnswer(msgspec.Struct, frozen=True):
    """One answer per task, in order."""

    tasks: Annotated[
        list[Any],
        msgspec.Meta(extra_json_schema={"items": {"anyOf": [schema_ref(AcceptedView), schema_ref(RefusedView)]}}),
    ]


@routes.plain(
    "POST",
    "/tasks",
    ResponseSpec(
        AcceptedView,
        "Stored.",
        {
            "Location": "Where the task is.",
            "Flow": "Of a task that is one.",
            "Idempotency-Replayed": "`true` when the first answer is given again.",
        },
    ),
    status=201,
    name="submit",
    summary="Submit a task",
    description="Answered once it is on disk. `batch_products` and `full_sync` are flows: the task is the last "
    "step of one, named by the header `Flow`.",
    parameters=[KEY_PARAMETER],
    body=TaskBody,
)
async def submit_task(request: PlainRequest) -> Response:
    principal = await require_principal(request, Role.OPERATOR)
    check_query_names(request)
    check_media_type(request, JSON)
    raw = await request.body()
    body = read_task(raw)
    if isinstance(body, Refusal):
        return _unreadable_response(raw, body)
    if get_services(request).shop_flows.may_be_flow(body):
        flow = await submit_shop_flow(request, principal, body)
        if flow is not None:
            return _flow_response(flow)
    answer = await submit_bodies(request, principal, [body], is_atomic=False)
    (item,) = answer.items
    if isinstance(item, Refusal):
        return refusal_response(item, field=_refused_field(item))
    view = accepted_view(item)
    return json_response(view, 201, {"Location": f"{PREFIX}/tasks/{view.id}", **replay_headers(answer)})


async def submit_shop_flow(request: PlainRequest, principal: Principal, body: TaskBody) -> SubmittedFlow | None:
    """Submit a task that is a flow: its last step is the task. Returns None for one that is submitted as any other."""
    added = await get_services(request).shop_flows.submit_flow(
        body, _key_scope([body], principal), read_idempotency_key(request)
    )
    if added is None:
        return None
    if not added.is_replay:
        await write_audit_entry(
            request, principal, "flow.submit", group_text(added.flow), {"task_type": body.task_type}
        )
    return added


def _flow_response(flow: SubmittedFlow) -> Response:
    view = accepted_view(flow.task)
    headers = {"Location": f"{PREFIX}/tasks/{view.id}", "Flow": group_text(flow.flow)}
    return json_response(view, 201, headers | ({"Idempotency-Replayed": "true"} if flow.is_replay else {}))


@routes.plain(
    "POST",
    "/tasks:batch",
    ResponseSpec(BatchAnswer, "One answer per task, in order."),
    summary="Submit up to 10,000 tasks",
    description="`each` stores those that are right and answers for each; `atomic` stores all or none (422, with "
    "the same list in `tasks`).",
    parameters=[KEY_PARAMETER, _MODE_PARAMETER],
    body={JSON: TaskBatch, LINES: {"type": "string", "description": "A task per line."}},
    schemas=(AcceptedView, RefusedView),
)
async def submit_batch(request: PlainRequest) -> Response:
    principal = await require_principal(request, Role.OPERATOR)
    check_query_names(request, "mode")
    is_lines = check_media_type(request, JSON, LINES) == LINES
    raw = await request.body()
    bodies, mode = _read_lines(raw, request) if is_lines else _read_array(raw, request)
    answer = await submit_bodies(request, principal, bodies, is_atomic=mode == "atomic")
    bad = [item for item in answer.items if isinstance(item, Refusal)]
    if bad and all(item.code is Code.IDEMPOTENCY_MISMATCH for item in bad):
        return refusal_response(bad[0], field=KEY)
    tasks = [item_view(item) for item in answer.items]
    if bad and mode == "atomic":
        return batch_refusal_response(answer.items, tasks)
    return json_response({"tasks": tasks}, 200, replay_headers(answer))


async def submit_bodies(
    request: PlainRequest, principal: Principal, bodies: Sequence[TaskBody | Refusal], *, is_atomic: bool
) -> SubmissionAnswer:
    """Submit tasks under the idempotency key of the request, if it has one, and note who did."""
    key = read_idempotency_key(request)
    scope = "" if key is None else _key_scope(bodies, principal)
    services = get_services(request)
    if services.tracing is None:
        answer = await services.submit.submit_tasks(bodies, is_atomic=is_atomic, scope=scope, key=key)
    else:
        queues = {body.queue for body in bodies if isinstance(body, TaskBody)}
        header = (request.find_header(_TRACE_HEADER) or b"").decode("latin-1")
        with services.tracing.start_send(queues.pop() if len(queues) == 1 else None, len(bodies), header) as span:
            answer = await services.submit.submit_tasks(
                bodies, is_atomic=is_atomic, scope=scope, key=key, traceparent=span.traceparent
            )
    if not answer.is_replay:
        accepted = [item.id for item in answer.items if isinstance(item, Accepted)]
        if accepted:
            services.submit_audit.note_submit(
                principal, caller_address(request), accepted[0], accepted[-1], len(accepted)
            )
    return answer


def read_idempotency_key(request: PlainRequest) -> str | None:
    header = request.find_header(_KEY_HEADER)
    return None if header is None else header.decode("latin-1")


def _key_scope(bodies: Sequence[TaskBody | Refusal], principal: Principal) -> str:
    """Of an idempotency key: the project of the tasks, or the token where there is none, or more than one."""
    projects = {body.project_id for body in bodies if isinstance(body, TaskBody)}
    (only,) = projects if len(projects) == 1 else (None,)
    return f"project:{only}" if only else f"token:{principal.token}"


def check_media_type(request: PlainRequest, *allowed: str) -> str:
    header = request.find_header(b"content-type")
    if header is None or header == _JSON_HEADER:
        return JSON
    sent = header.decode("latin-1")
    kind = sent.partition(";")[0].strip().lower()
    if kind not in allowed:
        raise UnsupportedMediaType(
            f"the body must be {' or '.join(allowed)}, not {printable_text(sent)[: limits.NAME_CHARS]}"
        )
    return kind


def _read_array(raw: bytes, request: PlainRequest) -> tuple[list[TaskBody | Refusal], str]:
    try:
        body = _batch(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise unreadable_body_error(raw, exc, "body", BatchBody) from exc
    mode = _read_mode(request, body.mode)
    try:
        return read_tasks(bytes(body.tasks)), mode
    except msgspec.MsgspecError as exc:
        raise unreadable_body_error(raw, exc, "tasks") from exc


def unreadable_body_error(raw: bytes, exc: Exception, field: str, kind: Any = None) -> UsageError:
    if not isinstance(exc, msgspec.ValidationError) or json_error_location.find_decode_error(raw) is not None:
        return Malformed(f"the body is not valid JSON: {json_error_location.find_decode_error(raw) or exc}")
    refusal = refusal_from_error(exc, kind)
    return InvalidInput(refusal.detail, field=refusal.field or field)


def _read_lines(raw: bytes, request: PlainRequest) -> tuple[list[TaskBody | Refusal], str]:
    lines = [line for line in raw.split(b"\n") if line.strip()]
    if len(lines) > limits.BATCH_TASKS:
        raise InvalidInput(f"a batch has 1 to {limits.BATCH_TASKS} tasks", field="tasks")
    return [read_task(line) for line in lines], _read_mode(request, "each")


def _read_mode(request: PlainRequest, default: str) -> str:
    mode = request.query_params.get("mode", default)
    if mode not in {"atomic", "each"}:
        raise InvalidInput("must be atomic or each", field="mode")
    return mode


def _unreadable_response(raw: bytes, refusal: Refusal) -> Response:
    if refusal.code is Code.INVALID_INPUT and (complaint := json_error_location.find_decode_error(raw)) is not None:
        return problem_response(
            400, "malformed", f"the body is not valid JSON: {complaint}", field=refusal.field or "body"
        )
    return refusal_response(refusal, field="body")


def _refused_field(refusal: Refusal) -> str | None:
    return KEY if refusal.code is Code.IDEMPOTENCY_MISMATCH else None


def batch_refusal_response(items: Sequence[object], tasks: Sequence[object]) -> Response:
    """Of an atomic batch: nothing was stored, and the list says which task is to blame."""
    index, first = next(
        (index, item)
        for index, item in enumerate(items)
        if isinstance(item, Refusal) and item.code is not Code.BATCH_REFUSED
    )
    field = f"tasks[{index}].{first.field}" if first.field else f"tasks[{index}]"
    detail = f"nothing was stored: task {index}: {first.detail}"
    return problem_response(
        422, str(Code.BATCH_REFUSED), detail, field=field, extra={"tasks": msgspec.to_builtins(tasks)}
    )


def replay_headers(answer: SubmissionAnswer) -> dict[str, str]:
    return {"Idempotency-Replayed": "true"} if answer.is_replay else {}
