"""The calls of executions that see products: write a batch, ask for those not seen, ask what has become of them."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from starlette.responses import Response

from crawlfleet.api.http.auth import require_principal
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import check_query_names
from crawlfleet.api.http.request_bodies import decode_message, read_body
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import JSON_MESSAGE, RouteTable, describe_parameter
from crawlfleet.api.http.services import get_services
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
async def put_products(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _PUT)
    await get_services(request).products.put_products(speaker, up)
    return json_response({})


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
async def list_unseen_products(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _UNSEEN)
    records = await get_services(request).products.list_unseen(speaker, up)
    return json_response(
        UnseenDown([UnseenBody(record.key, record.product.id, record.product.url) for record in records])
    )


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
async def report_products(request: PlainRequest) -> Response:
    speaker, up = await read_call(request, _REPORT)
    counts, records = await get_services(request).products.get_sync_report(speaker, up)
    return json_response(ReportDown(list(counts), [(record.key, product_body(record.product)) for record in records]))


async def read_call(
    request: PlainRequest, decoder: msgspec.json.Decoder[T], body_bytes: int = BODY_BYTES
) -> tuple[Speaker, T]:
    """The execution that calls, as its node names it, and what it says."""
    check_query_names(request, "task")
    principal = await require_principal(request, Role.NODE)
    assert principal.node is not None
    execution = ids.parse_id(request.path_params["execution_id"], "exec", field="execution_id")
    task = ids.parse_id(request.query_params.get("task", ""), "task", field="task")
    up = decode_message(cast("Any", decoder), await read_body(request, body_bytes))
    return Speaker(principal.node, task, execution), cast("T", up)
