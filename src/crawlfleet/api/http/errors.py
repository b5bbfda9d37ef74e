"""Error responses: application/problem+json (RFC 9457), with a stable code and the field named."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, get_args

import msgspec
import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from crawlfleet.errors import CrawlfleetError, NotAllowed, OverLimit, ReadTooLong, Unavailable, UsageError
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.wire.field_messages import model_message

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1.0
_ERRORS_SHOWN = 50
_DETAIL_CHARS = 2_000

STATUS_OF_CODE: Mapping[Code, int] = {
    Code.INVALID_INPUT: 422,
    Code.TOO_LARGE: 413,
    Code.UNKNOWN_TYPE: 422,
    Code.UNKNOWN_TASK: 404,
    Code.UNKNOWN_NODE: 404,
    Code.UNKNOWN_DEPENDENCY: 422,
    Code.UNKNOWN_GROUP: 422,
    Code.GROUP_CLOSED: 409,
    Code.IDEMPOTENCY_MISMATCH: 422,
    Code.BATCH_REFUSED: 422,
    Code.ILLEGAL_TRANSITION: 409,
    Code.ALREADY_FINAL: 409,
    Code.NOT_FINAL: 409,
    Code.NOT_READY: 409,
    Code.STALE_EXECUTION: 409,
    Code.WRONG_NODE: 403,
    Code.SESSION_ENDED: 409,
    Code.NODE_NOT_READY: 409,
    Code.DOES_NOT_FIT: 409,
    Code.PART_OF_FLOW: 409,
    Code.OVER_LIMIT: 429,
    Code.OVER_QUOTA: 409,
}

_HINTS = {
    "not_authenticated": "send Authorization: Bearer <token> or X-API-Key: <token>; crawlfleet token create makes one",
    "already_final": "a final task is opened again by :retry",
    "not_final": "a task that has not ended is stopped by :cancel",
    "unknown_type": "GET /api/v1/task-types lists the known types; a type is known once a node that runs it has joined",
    "group_open": "POST /api/v1/groups/{id}:cancel ends what is open",
    "group_incomplete": "?partial=true gives what there is; POST /api/v1/groups/{id}:retry tries the others again",
    "does_not_fit": "GET /api/v1/tasks/{id}/why says which filter removed how many nodes",
    "part_of_flow": "/api/v1/flows/{flow_id} has :cancel, :resume and DELETE for the whole",
    "idempotency_mismatch": "use a new Idempotency-Key for another body",
    "token_already_made": "POST /api/v1/tokens/{token_id}:rotate gives it another secret",
    "store_unavailable": "nothing was written; try again",
    "outcome_unknown": "it may have been written: read it again, or repeat it under the same Idempotency-Key",
}

_CODE_OF_STATUS = {
    400: "malformed",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
}


class NotAuthenticated(NotAllowed):
    """No token, or one that is not known, expired, used up or revoked: the response does not reveal which."""

    code = "not_authenticated"
    http_status = 401
    field = "Authorization"


class RoleTooLow(NotAllowed):
    field = "Authorization"


class TooManyAttempts(OverLimit):
    code = "too_many_attempts"


class Malformed(UsageError):
    """A body that cannot be read at all."""

    code = "malformed"
    http_status = 400

    def __init__(self, detail: str, *, field: str = "body") -> None:
        super().__init__(detail)
        self.field = field


class TooLarge(UsageError):
    code = "too_large"
    http_status = 413
    field = "body"


class HeadTimeout(UsageError):
    """The head of a request was not complete in time."""

    code = "head_timeout"
    http_status = 408


class HeadTooLarge(UsageError):
    code = "head_too_large"
    http_status = 431


class UnsupportedMediaType(UsageError):
    code = "unsupported_media_type"
    http_status = 415
    field = "Content-Type"


class Problem(msgspec.Struct, omit_defaults=True, frozen=True):
    """An error."""

    type: str
    title: str
    status: int
    code: str
    """Stable: programs may branch on it."""
    detail: str
    field: str | None = None
    """What in the request is wrong: a path in the body, a parameter, a header."""
    errors: list[dict[str, str]] | None = None
    """All of them, where more than one was found."""
    hint: str | None = None
    incident: str | None = None
    """To find the error in the logs of the master."""


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    field: str | None = None,
    errors: list[dict[str, str]] | None = None,
    incident: str | None = None,
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Response:
    title = HTTPStatus(status).phrase
    problem = Problem(
        f"urn:crawlfleet:error:{code}",
        title,
        status,
        code,
        printable_text(detail),
        field,
        errors,
        _HINTS.get(code),
        incident,
    )
    content = msgspec.json.encode({**msgspec.to_builtins(problem), **extra} if extra else problem)
    return Response(content, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def refusal_response(refusal: Refusal, *, field: str | None = None) -> Response:
    """Return the response for the refusal of a request's only item."""
    status = STATUS_OF_CODE[refusal.code]
    code = "not_found" if status == 404 else str(refusal.code)
    headers = {"Retry-After": str(math.ceil(RETRY_AFTER_S))} if status == 429 else None
    return problem_response(status, code, refusal.detail, field=refusal.field or field, headers=headers)


def task_refusal_response(task: TaskId, refusal: Refusal) -> Response:
    """Return the response for a refused change of a task, with the task's id: the request may be one of many that a
    person made."""
    is_unknown = refusal.code is Code.UNKNOWN_TASK
    detail = f"no task {task_text(task)}" if is_unknown else f"{task_text(task)}: {refusal.detail}"
    return refusal_response(replace(refusal, detail=detail))


def error_response(exc: CrawlfleetError) -> Response:
    if exc.http_status >= 500 and not isinstance(exc, Unavailable):
        return unexpected_response(exc)
    headers: dict[str, str] = {}
    if isinstance(exc, NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(exc, Unavailable | OverLimit) and not isinstance(exc, ReadTooLong):
        headers["Retry-After"] = str(max(1, math.ceil(getattr(exc, "retry_after_s", RETRY_AFTER_S))))
    if isinstance(exc, Unavailable):
        log.warning("unavailable", error=str(exc), code=exc.code)
        return problem_response(exc.http_status, exc.code, exc.told, headers=headers)
    detail = getattr(exc, "detail", None) or str(exc) or exc.code
    field, extra = getattr(exc, "field", None), getattr(exc, "extra", None)
    return problem_response(exc.http_status, exc.code, detail, field=field, headers=headers, extra=extra)


def unexpected_response(exc: BaseException) -> Response:
    """Return the response for a bug in crawlfleet: it has an incident number, and nothing else about the error."""
    incident = secrets.token_hex(8)
    log.error("unexpected_error", incident=incident, exc_info=exc)
    detail = f"an unexpected error; the master's log has it as incident {incident}"
    return problem_response(500, "internal", detail, incident=incident)


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(CrawlfleetError, _handle_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_exception)


async def _handle_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, CrawlfleetError)
    return error_response(exc)


async def _handle_http_exception(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    return http_error_response(request, exc)


def http_error_response(request: Request, exc: HTTPException) -> Response:
    """Return the response for an exception of the framework."""
    # An error that was raised while a body was read arrives wrapped.
    if isinstance(exc.__cause__, CrawlfleetError):
        return error_response(exc.__cause__)
    code = _CODE_OF_STATUS.get(exc.status_code, f"http_{exc.status_code}")
    match exc.status_code:
        case 404:
            return problem_response(404, code, f"nothing is at {request.url.path}")
        case 405:
            allow = _allowed_methods(request)
            detail = f"{request.method} is not offered here; {allow} is"
            return problem_response(405, code, detail, headers={"Allow": allow})
        case 400:
            return problem_response(
                400, code, f"the body cannot be read: {_body_complaint(exc.__cause__)}", field="body"
            )
        case status:
            return problem_response(status, code, str(exc.detail), headers=exc.headers)


def _body_complaint(cause: BaseException | None) -> str:
    match cause:
        case UnicodeDecodeError():
            return "not valid UTF-8"
        case RecursionError():
            return "nested too deep"
        case _:
            return "not valid JSON"


def _allowed_methods(request: Request) -> str:
    methods: set[str] = set()
    for method in ("DELETE", "GET", "PATCH", "POST", "PUT"):
        scope = {**request.scope, "method": method}
        if any(route.matches(dict(scope))[0] is Match.FULL for route in request.app.router.routes):
            methods.add(method)
    return ", ".join(sorted(methods)) or "nothing"


async def _handle_invalid_request(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    invalid = exc.errors()
    if any(error["type"] == "json_invalid" for error in invalid):
        error = next(error for error in invalid if error["type"] == "json_invalid")
        return problem_response(400, "malformed", f"the body is not valid JSON: {error['ctx']['error']}", field="body")
    if any(error["loc"] == ("body",) for error in invalid) and not _is_json(request):
        sent = request.headers.get("content-type", "none")
        return error_response(UnsupportedMediaType(f"the body must be application/json, not {printable_text(sent)}"))
    if any(error["loc"][0] == "path" and str(error["type"]).startswith("int_") for error in invalid):
        # A text that is no number is the id of nothing.
        return problem_response(404, "not_found", f"nothing is at {printable_text(request.url.path)}")
    errors = [
        {
            "field": field_path(error["loc"]),
            "detail": printable_text(model_message(error, _known_fields(request, error))),
        }
        for error in invalid[:_ERRORS_SHOWN]
    ]
    first = errors[0]
    return problem_response(
        422, "invalid_input", first["detail"], field=first["field"], errors=errors if len(errors) > 1 else None
    )


def _known_fields(request: Request, error: Mapping[str, Any]) -> list[str]:
    """Return the fields beside one that is not known, from the model that the route declares."""
    route = request.scope.get("route")
    if error["type"] != "extra_forbidden" or error["loc"][0] != "body" or not isinstance(route, APIRoute):
        return []
    body = route.body_field
    model: Any = None if body is None else body.field_info.annotation
    for step in error["loc"][1:-1]:
        fields = _model_fields(model)
        model = fields[step].annotation if step in fields else None
    return [field.alias or name for name, field in _model_fields(model).items()]


def _model_fields(kind: Any) -> dict[Any, FieldInfo]:
    """Return the fields of a model, or of the model that is an alternative or the type of entries in `kind`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return dict(kind.model_fields)
    return next((fields for inner in get_args(kind) if (fields := _model_fields(inner))), {})


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Without a body there is nothing whose type could be wrong.
    return kind == "application/json" or kind.endswith("+json") or request.headers.get("content-length", "0") == "0"


def field_path(location: Sequence[int | str]) -> str:
    """Return the field as people write it: `filter.status[0]`; the part of the request only where nothing else is
    left."""
    steps = location[1:] if len(location) > 1 and location[0] in {"body", "query", "path", "header"} else location
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return printable_text(path.removeprefix("."))


def printable_text(text: str) -> str:
    """Make a text from the request fit to be shown: it may be a megabyte, and hold characters that no response can
    carry."""
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= _DETAIL_CHARS else f"{clean[:_DETAIL_CHARS]}..."
