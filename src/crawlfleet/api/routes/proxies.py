"""Proxies of nodes' pools: reported by the nodes, shown to people."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec
from fastapi import Query
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, require_principal
from crawlfleet.api.http.fast_routes import PlainRequest
from crawlfleet.api.http.node_access import NotItself
from crawlfleet.api.http.parameters import Text, check_query_names
from crawlfleet.api.http.request_bodies import decode_message, read_body
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import JSON_MESSAGE, RouteTable, describe_parameter
from crawlfleet.api.http.services import TheServices, get_services
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time
from crawlfleet.model import ids
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.limits import LABEL_CHARS
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.proxy_health import ProxyHealth
from crawlfleet.wire.proxies import BODY_BYTES, ProxiesUp

routes = RouteTable("proxies", PREFIX)
_UP = msgspec.json.Decoder(ProxiesUp)


class ProxyView(msgspec.Struct, frozen=True):
    node_id: str
    node_name: str
    pool: str
    proxy: str
    """Host and port."""
    is_up: bool
    uses: int
    failures: int
    """In a row."""
    down_until: Time | None
    """When it is tried again."""
    latency_ms: int | None
    last_failure: str | None
    reported_at: Time


class ProxyList(msgspec.Struct, frozen=True):
    proxies: list[ProxyView]


@routes.get("/proxies", ResponseSpec(ProxyList, "By node, pool and proxy, as each node last reported."))
async def list_proxies(
    services: TheServices,
    pool: Annotated[Text | None, Query(max_length=LABEL_CHARS, description="Only those of this pool.")] = None,
    is_up: Annotated[bool | None, Query(description="Only those that are used now, or only the others.")] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Those that crawls have used. The health of a proxy is what one node found out: others may reach it."""
    reports = await services.proxy_reports.list_reports()
    now = services.clock.now()
    views = [
        _proxy_view(node_text(node.id), node.description.name, health, report.reported_at, now)
        for node, report in reports
        for health in report.proxies
        if pool in (None, health.pool)
    ]
    chosen = [view for view in views if is_up in (None, view.is_up)]
    return json_response(
        ProxyList(sorted(chosen, key=lambda view: (view.node_name, view.node_id, view.pool, view.proxy)))
    )


def _proxy_view(node_id: str, node_name: str, health: ProxyHealth, reported_at: Instant, now: Instant) -> ProxyView:
    down_until = reported_at + health.down_for_ms
    is_up = health.down_for_ms == 0 or down_until <= now
    return ProxyView(
        node_id,
        node_name,
        health.pool,
        health.proxy,
        is_up,
        health.uses,
        health.failures,
        None if is_up else to_text(down_until),
        health.latency_ms or None,
        health.last_failure or None,
        to_text(reported_at),
    )


@routes.plain(
    "PUT",
    "/nodes/{node_id}/proxies",
    ResponseSpec(None, "It is stored."),
    status=204,
    summary="Report how the node's proxies do",
    description="`ProxiesUp`: fields travel by position (see `wire/proxies.py`). It replaces the last report.",
    parameters=[
        describe_parameter("node_id", "path", "The node that reports."),
        describe_parameter(
            "Content-Encoding", "header", "How it is packed.", {"type": "string", "enum": ["identity", "zstd"]}
        ),
    ],
    body=JSON_MESSAGE,
    body_limit=BODY_BYTES,
)
async def put_proxies(request: PlainRequest) -> Response:
    check_query_names(request)
    principal = await require_principal(request, Role.NODE)
    node = ids.parse_id(request.path_params["node_id"], "node", field="node_id")
    if principal.node != node:
        raise NotItself(f"a node acts only for itself, and this secret is not that of {node_text(node)}")
    up = cast("ProxiesUp", decode_message(cast("Any", _UP), await read_body(request, BODY_BYTES)))
    await get_services(request).proxy_reports.put(node, up)
    return empty_response()
