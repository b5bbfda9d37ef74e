"""The two calls of every node's agent: open a session, and sync. Hot, so plain routes over msgspec."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import require_principal
from crawlfleet.api.http.node_access import find_node, require_own_node
from crawlfleet.api.http.parameters import check_query_names
from crawlfleet.api.http.request_bodies import decode_message
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import JSON_MESSAGE, RouteTable, describe_parameter
from crawlfleet.api.http.services import get_services
from crawlfleet.api.http.shutdown import is_stopping
from crawlfleet.api.routes import PREFIX
from crawlfleet.errors import InvalidInput
from crawlfleet.model.ids import node_text
from crawlfleet.model.principal import Role
from crawlfleet.wire.sync import OpenUp, SyncUp

BODY_BYTES = 32 << 20
"""Room for several times what an agent puts into one message, and for its largest single outcome."""

routes = RouteTable("nodes", PREFIX)
UpT = TypeVar("UpT", OpenUp, SyncUp)
_OPEN = msgspec.json.Decoder(OpenUp)
_SYNC = msgspec.json.Decoder(SyncUp)


_NODE_PARAMETERS = [describe_parameter("node_id", "path", "The node's id, or its device id.")]


@routes.plain(
    "POST",
    "/nodes/{node_id}:open",
    ResponseSpec(JSON_MESSAGE, "OpenDown."),
    name="open",
    summary="Open a session",
    description="Outcomes saved by the last session come first. Fields travel by position (see `wire/sync.py`): "
    "`OpenUp` up, `OpenDown` down.",
    parameters=_NODE_PARAMETERS,
    body=JSON_MESSAGE,
    body_limit=BODY_BYTES,
)
async def open_session(request: Request) -> Response:
    up = await _read_message(request, _OPEN, "node.open")
    return json_response(await get_services(request).open_session.open_session(up))


@routes.plain(
    "POST",
    "/nodes/{node_id}:sync",
    ResponseSpec(JSON_MESSAGE, "SyncDown."),
    summary="Sync",
    description="Renews the lease, brings what ended, takes work away; a long poll of at most two seconds. Fields "
    "travel by position (see `wire/sync.py`): `SyncUp` up, `SyncDown` down.",
    parameters=_NODE_PARAMETERS,
    body=JSON_MESSAGE,
    body_limit=BODY_BYTES,
    name="sync",
)
async def sync_node(request: Request) -> Response:
    up = await _read_message(request, _SYNC, "node.sync")
    if is_stopping(request):
        up = msgspec.structs.replace(up, wait_ms=0)
    return json_response(await get_services(request).sync.sync(up))


async def _read_message(request: Request, decoder: msgspec.json.Decoder[UpT], action: str) -> UpT:
    """The message, from the node that it, the path and the secret all name."""
    check_query_names(request)
    principal = await require_principal(request, Role.NODE)
    named = request.path_params["node_id"]
    if principal.node is None or named != node_text(principal.node):
        await require_own_node(request, principal, (await find_node(get_services(request), named)).id, action)
    up = cast("UpT", decode_message(cast("Any", decoder), await request.body()))
    if up.node != principal.node:
        raise InvalidInput("not the node of the path", field="node")
    return up
