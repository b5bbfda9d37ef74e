"""The call of members of a crawl over many nodes: report a chunk of URLs, get the next."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
from starlette.responses import Response

from crawlfleet.api.http.auth import require_principal
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.parameters import check_query_names
from crawlfleet.api.http.request_bodies import decode_message, read_body
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import JSON_MESSAGE, RouteTable, describe_parameter
from crawlfleet.api.http.services import get_services
from crawlfleet.api.http.shutdown import is_stopping
from crawlfleet.api.routes import PREFIX
from crawlfleet.errors import InvalidInput
from crawlfleet.model import ids
from crawlfleet.model.principal import Role
from crawlfleet.wire.crawl import BODY_BYTES, CrawlUp

routes = RouteTable("executions", PREFIX)
_UP = msgspec.json.Decoder(CrawlUp)
_RANGE = re.compile(r"([0-9]{1,7})-([0-9]{1,7})")


@routes.plain(
    "POST",
    "/executions/{execution_id}/crawl",
    ResponseSpec(JSON_MESSAGE, "CrawlDown."),
    name="exchange_crawl",
    summary="Report a chunk of a crawl and get the next",
    description="One transaction: the report counts with everything it found, or not at all. The same report again "
    "changes nothing. Fields travel by position (see `wire/crawl.py`): `CrawlUp` up, `CrawlDown` down. A long poll "
    "of at most two seconds. 409 `stale_execution` when the execution is over, or the chunk is not its own.",
    parameters=[
        describe_parameter("execution_id", "path", "Of a live execution of the node, of a member of a crawl."),
        describe_parameter("task", "query", "The task it executes.", is_required=True),
        describe_parameter(
            "items",
            "query",
            "Which chunks of the execution's items belong to the report: `3-5` are 3 and 4.",
        ),
        describe_parameter("warc", "query", "Which chunks of its archive do."),
        describe_parameter(
            "Content-Encoding", "header", "How it is packed.", {"type": "string", "enum": ["identity", "zstd"]}
        ),
    ],
    body=JSON_MESSAGE,
    body_limit=BODY_BYTES,
)
async def exchange_crawl(request: PlainRequest) -> Response:
    check_query_names(request, "task", "items", "warc")
    principal = await require_principal(request, Role.NODE)
    assert principal.node is not None
    execution = ids.parse_id(request.path_params["execution_id"], "exec", field="execution_id")
    task = ids.parse_id(request.query_params.get("task", ""), "task", field="task")
    items, records = (_parse_chunk_range(request.query_params.get(kind, "0-0"), kind) for kind in ("items", "warc"))
    up = cast(CrawlUp, decode_message(cast("Any", _UP), await read_body(request, BODY_BYTES)))
    if is_stopping(request):
        up = msgspec.structs.replace(up, wait_ms=0)
    service = get_services(request).crawl_coordination
    return json_response(await service.exchange_batch(principal.node, task, execution, up, items, records))


def _parse_chunk_range(text: str, kind: str) -> tuple[int, int]:
    if (bounds := _RANGE.fullmatch(text)) is None:
        raise InvalidInput(f"from-to, of chunks of {kind}", field=kind)
    return int(bounds[1]), int(bounds[2])
