"""The calls of executions that see products: write a batch, ask for those not seen, ask what has become of them."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from crawlfleet.api.http.auth import principal_of
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.openapi import operation, parameter
from crawlfleet.api.http.parameters import only_query
from crawlfleet.api.http.request_bodies import decoded, read_unpacked
from crawlfleet.api.http.responses import reply
from crawlfleet.api.http.services import services_of
from crawlfleet.api.routes import PREFIX
from crawlfleet.control.results.result_collection import Speaker
from crawlfleet.model import ids
from crawlfleet.model.principal import Role
from crawlfleet.wire.products import (
    BODY_BYTES,
    ProductsUp,
    ReportDown,
    ReportUp,
    UnseenBody,
    UnseenDown,
    UnseenUp,
    body_of,
)

T = TypeVar("T", bound=msgspec.Struct)
_PUT = msgspec.json.Decoder(ProductsUp)
_UNSEEN = msgspec.json.Decoder(UnseenUp)
_REPORT = msgspec.json.Decoder(ReportUp)


async def put(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _PUT)
    await services_of(request).products.put_products(speaker, up)
    return reply({})


async def unseen(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _UNSEEN)
    found = await services_of(request).products.list_unseen(speaker, up)
    return reply(UnseenDown([UnseenBody(one.key, one.product.id, one.product.url) for one in found]))


async def report(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _REPORT)
    counts, found = await services_of(request).products.get_sync_report(speaker, up)
    return reply(ReportDown(list(counts), [(one.key, body_of(one.product)) for one in found]))


async def read_call(
    request: PlainRequest, decoder: msgspec.json.Decoder[T], body_bytes: int = BODY_BYTES
) -> tuple[Speaker, T]:
    """The execution that calls, as its node names it, and what it says."""
    only_query(request, "task")
    principal = await principal_of(request, Role.NODE)
    assert principal.node is not None
    execution = ids.parse(request.path_params["execution_id"], "exec", field="execution_id")
    task = ids.parse(request.query_params.get("task", ""), "task", field="task")
    up = decoded(cast("Any", decoder), await read_unpacked(request, body_bytes))
    return Speaker(principal.node, task, execution), cast("T", up)


_PATH = f"{PREFIX}/executions/{{execution_id}}/products"
routes = [
    Route(_PATH, put, methods=["POST"]),
    Route(f"{_PATH}:unseen", unseen, methods=["POST"]),
    Route(f"{_PATH}:report", report, methods=["POST"]),
]
body_limits = {route.path: BODY_BYTES for route in routes}
_MESSAGE = {"type": "array", "items": {}}
_ANSWER = {"description": "The answer.", "content": {"application/json": {"schema": _MESSAGE}}}
_WRITTEN = {"description": "They are written.", "content": {"application/json": {"schema": {"type": "object"}}}}
EXECUTION_PARAMETERS = [
    parameter("execution_id", "path", "Of a live execution of the node."),
    parameter("task", "query", "The task it executes.") | {"required": True},
    parameter("Content-Encoding", "header", "How it is packed.", {"type": "string", "enum": ["identity", "zstd"]}),
]
_BY_POSITION = "Fields travel by position (see `wire/products.py`). 409 `stale_execution` when the execution is over."

operations = {
    ("POST", _PATH): operation(
        "put_products",
        "Write products that an execution has seen",
        tag="executions",
        parameters=EXECUTION_PARAMETERS,
        body={"application/json": _MESSAGE},
        responses={200: _WRITTEN},
        description=f"`ProductsUp`: all of them or none; the same again changes nothing. {_BY_POSITION}",
    ),
    ("POST", f"{_PATH}:unseen"): operation(
        "unseen_products",
        "Which products of a shop were not seen since an instant",
        tag="executions",
        parameters=EXECUTION_PARAMETERS,
        body={"application/json": _MESSAGE},
        responses={200: _ANSWER},
        description=f"`UnseenUp` up, `UnseenDown` down, a thousand at a time. {_BY_POSITION}",
    ),
    ("POST", f"{_PATH}:report"): operation(
        "report_products",
        "What has become of a shop's products since an instant",
        tag="executions",
        parameters=EXECUTION_PARAMETERS,
        body={"application/json": _MESSAGE},
        responses={200: _ANSWER},
        description=f"`ReportUp` up, `ReportDown` down, a thousand at a time. {_BY_POSITION}",
    ),
}
