"""Nodes: how they join, what people see of them, and what they tell them to do."""

from __future__ import annotations

import hashlib
import secrets
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, load_identity, write_audit_entry
from crawlfleet.api.http.errors import NotAuthenticated
from crawlfleet.api.http.idempotency import IdempotencyKey, make_body_claim
from crawlfleet.api.http.node_access import KnownNode, NotItself, find_node, public_address, require_own_node
from crawlfleet.api.http.parameters import Label, Moment, parse_instant
from crawlfleet.api.http.responses import ResponseSpec, empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.heartbeats import HeartbeatBody, HeartbeatHeard, stop_order_views
from crawlfleet.api.views.nodes import (
    SLOTS_BY_LOAD,
    DrainBody,
    HeartbeatHistory,
    NodeList,
    NodeRegistered,
    NodeRegistration,
    NodeStatusWord,
    NodeView,
    SlotsBody,
    history_view,
    node_view,
    require_cluster,
)
from crawlfleet.api.views.tasks import instant_text
from crawlfleet.errors import NotAllowed
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.node import Node
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("nodes", PREFIX)
SAMPLES = 1_500
"""A day of minutes, and an hour more."""


@routes.post(
    "/nodes:register",
    ResponseSpec(NodeRegistered, "The node is known.", {"Location": "Where it is."}),
    status=201,
    other_responses={
        200: ResponseSpec(
            NodeRegistered, "It was known, and said so with its own secret.", {"Location": "Where it is."}
        )
    },
    name="register",
)
async def register_node(
    request: Request,
    body: NodeRegistration,
    services: TheServices,
    principal: Principal = allow(Role.ENROL, Role.OPERATOR, Role.NODE),
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Join. An enrol token spends one of its uses, unless the node says a `join_key` that is known already: after a
    lost answer it gets a new secret, and the old one is over. A node that registers with its own secret keeps it, and
    tells only what is new about it."""
    if principal.node is not None:
        return await _announce_node(request, principal, principal.node, body, services)
    description = body.to_description(public_address(request, principal))
    join_key = body.join_key or make_join_key(principal, idempotency_key)
    enrolment = (await load_identity(request)).secret if principal.role is Role.ENROL else None
    claim = make_body_claim("nodes", principal, idempotency_key, body, services.clock.now())
    try:
        done = await services.register.register_node(
            description, join_key, body.task_types, enrolment=enrolment, claim=claim
        )
    except NotAllowed as exc:
        raise NotAuthenticated("this token is not valid") from exc
    node = node_text(done.node)
    await write_audit_entry(request, principal, "node.register", node, {"name": body.name, "cluster": body.cluster})
    answer = NodeRegistered(
        node, done.registered_at / 1000, done.status.word, done.secret, done.lease_ms / 1000, done.ignored_types
    )
    return json_response(answer, 201, {"Location": f"{PREFIX}/nodes/{node}"})


async def _announce_node(
    request: Request, principal: Principal, own: NodeId, body: NodeRegistration, services: Services
) -> Response:
    node = node_text(own)
    try:
        description = body.to_description(public_address(request, principal))
        done = await services.register.announce_node(own, description, body.join_key, body.task_types)
    except NotAllowed as exc:
        await write_audit_entry(request, principal, "node.register.refused", node, {"name": body.name})
        raise NotItself(str(exc)) from exc
    await write_audit_entry(request, principal, "node.announce", node, {"name": body.name, "cluster": body.cluster})
    answer = NodeRegistered(
        node, done.announced_at / 1000, done.status.word, None, done.lease_ms / 1000, done.ignored_types
    )
    return json_response(answer, 200, {"Location": f"{PREFIX}/nodes/{node}"})


@routes.get("/nodes", NodeList)
async def list_nodes(
    services: TheServices,
    cluster: Annotated[Label | None, Query(description="Only those of this cluster.")] = None,
    status: Annotated[NodeStatusWord | None, Query(description="Only those with this status.")] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Every node that was not removed, by name."""
    if cluster is not None:
        require_cluster(cluster, await services.node_reader.list_clusters())
    nodes = [
        node
        for node in await services.node_reader.list_nodes()
        if cluster in (None, node.description.cluster) and status in (None, node.status.word)
    ]
    return json_response(NodeList(await _node_views(services, nodes)))


@routes.get("/nodes/{node_id}", NodeView, name="show")
async def show_node(
    request: Request, node: KnownNode, services: TheServices, principal: Principal = allow(Role.VIEWER, Role.NODE)
) -> Response:
    await require_own_node(request, principal, node.id, "node.show")
    return json_response((await _node_views(services, [node]))[0])


@routes.get("/nodes/{node_id}/history", HeartbeatHistory, name="history")
async def show_node_history(
    request: Request,
    node: KnownNode,
    services: TheServices,
    since: Annotated[Moment | None, Query(description="The oldest sample; else as far back as there are any.")] = None,
    until: Annotated[Moment | None, Query(description="Samples before that; else before now.")] = None,
    limit: Annotated[int, Query(ge=1, le=SAMPLES, description="The newest so many.")] = SAMPLES,
    principal: Principal = allow(Role.VIEWER, Role.NODE),
) -> Response:
    """What the node measured: one sample a minute while it is heard, kept as long as events are."""
    await require_own_node(request, principal, node.id, "node.history")
    begin, end = parse_instant("since", since), parse_instant("until", until)
    last = services.clock.now() + 1 if end is None else end
    return json_response(
        history_view(node, await services.node_reader.list_heartbeats(node.id, begin or 0, last, limit))
    )


@routes.post("/nodes/{node_id}:heartbeat", HeartbeatHeard, name="heartbeat")
async def record_heartbeat(
    request: Request,
    node: KnownNode,
    body: HeartbeatBody,
    services: TheServices,
    principal: Principal = allow(Role.NODE, Role.OPERATOR),
) -> Response:
    """For clients without an agent: it opens a session or renews it, and the answer lists the executions to stop. A
    node with an agent renews by its syncs alone."""
    await require_own_node(request, principal, node.id, "node.heartbeat")
    beat = await services.heartbeat.record_heartbeat(node.id, body.to_measurement(), body.active_tasks)
    answer = HeartbeatHeard(
        node_text(beat.node),
        beat.at / 1000,
        beat.status.word,
        beat.stale,
        beat.next_s,
        stop_order_views(beat.stops),
        instant_text(beat.drain_by),
    )
    return json_response(answer)


@routes.post("/nodes/{node_id}:drain", NodeView, name="drain")
async def drain_node(
    request: Request,
    node: KnownNode,
    services: TheServices,
    body: DrainBody | None = None,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """It takes no new work, finishes what it runs or hands it back in time, and stays held until `:ready`."""
    within_s = (body or DrainBody()).within_s
    await services.node_changes.drain_node(node.id, within_s)
    await write_audit_entry(request, principal, "node.drain", node_text(node.id), {"within_s": within_s})
    return await _node_response(services, node)


@routes.post("/nodes/{node_id}:ready", NodeView, name="ready")
async def return_node(
    request: Request, node: KnownNode, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """It takes work again. Its health is judged anew: what it was judged by so far is forgotten."""
    await services.node_changes.make_ready(node.id)
    await write_audit_entry(request, principal, "node.ready", node_text(node.id))
    return await _node_response(services, node)


@routes.post("/nodes/{node_id}:slots", NodeView)
async def set_slots(
    request: Request,
    node: KnownNode,
    body: SlotsBody,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """How much it runs at once; it hears of it with its next sync. Nothing that runs is stopped."""
    by_load = body.slots == SLOTS_BY_LOAD
    await services.node_changes.set_slots(node.id, None if by_load else body.slots, follows_load=by_load)
    await write_audit_entry(request, principal, "node.slots", node_text(node.id), {"slots": body.slots})
    return await _node_response(services, node)


@routes.delete("/nodes/{node_id}", status=204, name="remove")
async def remove_node(
    request: Request, node: KnownNode, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Its secret is revoked at once, its work is free when its lease has ended, its history stays."""
    await services.node_changes.unregister_node(node.id)
    await write_audit_entry(request, principal, "node.remove", node_text(node.id), {"name": node.description.name})
    return empty_response()


async def _node_response(services: Services, node: Node) -> Response:
    return json_response((await _node_views(services, [await find_node(services, node_text(node.id))]))[0])


async def _node_views(services: Services, nodes: list[Node]) -> list[NodeView]:
    return [node_view(report) for report in await services.node_reader.report_nodes(nodes)]


def make_join_key(principal: Principal, idempotency_key: str | None) -> str:
    if idempotency_key is None:
        return secrets.token_hex(16)
    # Of the token it came with: a key that another caller chose must not make theirs the same node.
    return hashlib.sha256(f"{principal.token}\0{idempotency_key}".encode()).hexdigest()
