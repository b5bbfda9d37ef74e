"""The calls of executions that see products: write a batch, ask for those not seen, ask what has become of them."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from starlette.responses import Response

from crawlfleet.api.http.auth import principal_of
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import only_query
from crawlfleet.api.http.request_bodies import decoded, read_unpacked
from crawlfleet.api.http.responses import ResponseSpec, reply
from crawlfleet.api.http.route_table import JSON_MESSAGE, RouteTable, describe_parameter
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
    product_body,
)

routes = RouteTable("executions", PREFIX)
EXECUTION_PARAMETERS = [
    describe_parameter("execution_id", "path", "Of a live execution of the node."),
    describe_parameter("task", "query", "The task it executes.", is_required=True),
    describe_parameter(
        "Content-Encoding", "header", "How it is packed.", {"type": "string", "enum": ["identity", "zstd"]}
    ),
]
_BY_POSITION = "Fields travel by position (see `wire/products.py`). 409 `stale_execution` when the execution is over."
T = TypeVar("T", bound=msgspec.Struct)
_PUT = msgspec.json.Decoder(ProductsUp)
_UNSEEN = msgspec.json.Decoder(UnseenUp)
_REPORT = msgspec.json.Decoder(ReportUp)


@routes.plain(
    "POST",
    "/executions/{execution_id}/products",
    ResponseSpec({"application/json": {"type": "object"}}, "They are written."),
    name="put_products",
    summary="Write products that an execution has seen",
    description=f"`ProductsUp`: all of them or none; the same again changes nothing. {_BY_POSITION}",
    parameters=EXECUTION_PARAMETERS,
    body=JSON_MESSAGE,
    body_limit=BODY_BYTES,
)
async def put(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _PUT)
    await services_of(request).products.put_products(speaker, up)
    return reply({})


@routes.plain(
    "POST",
    "/executions/{execution_id}/products:unseen",
    ResponseSpec(JSON_MESSAGE, "The answer."),
    name="unseen_products",
    summary="Which products of a shop were not seen since an instant",
    description=f"`UnseenUp` up, `UnseenDown` down, a thousand at a time. {_BY_POSITION}",
    parameters=EXECUTION_PARAMETERS,
    body=JSON_MESSAGE,
    body_limit=BODY_BYTES,
)
async def unseen(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _UNSEEN)
    found = await services_of(request).products.list_unseen(speaker, up)
    return reply(UnseenDown([UnseenBody(one.key, one.product.id, one.product.url) for one in found]))


@routes.plain(
    "POST",
    "/executions/{execution_id}/products:report",
    ResponseSpec(JSON_MESSAGE, "The answer."),
    name="report_products",
    summary="What has become of a shop's products since an instant",
    description=f"`ReportUp` up, `ReportDown` down, a thousand at a time. {_BY_POSITION}",
    parameters=EXECUTION_PARAMETERS,
    body=JSON_MESSAGE,
    body_limit=BODY_BYTES,
)
async def report(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _REPORT)
    counts, found = await services_of(request).products.get_sync_report(speaker, up)
    return reply(ReportDown(list(counts), [(one.key, product_body(one.product)) for one in found]))


async def read_call(
    request: PlainRequest, decoder: msgspec.json.Decoder[T], body_bytes: int = BODY_BYTES
) -> tuple[Speaker, T]:
    """The execution that calls, as its node names it, and what it says."""
    only_query(request, "task")
    principal = await principal_of(request, Role.NODE)
    assert principal.node is not None
    execution = ids.parse_id(request.path_params["execution_id"], "exec", field="execution_id")
    task = ids.parse_id(request.query_params.get("task", ""), "task", field="task")
    up = decoded(cast("Any", decoder), await read_unpacked(request, body_bytes))
    return Speaker(principal.node, task, execution), cast("T", up)
