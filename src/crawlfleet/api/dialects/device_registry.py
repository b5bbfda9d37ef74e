"""The device dialect: how devices register, beat and change their status, and what people see of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query, Request
from starlette.responses import Response

from crawlfleet.api.dialects.device_bodies import DeviceHeartbeat, DeviceRegistration, DeviceStatusBody
from crawlfleet.api.dialects.device_views import (
    DeviceHeartbeatHeard,
    DevicePage,
    DeviceRegistered,
    DeviceStatusChanged,
    DeviceWord,
    device_name,
    device_slots,
    device_view,
    device_word,
    report_word,
)
from crawlfleet.api.http.auth import allow, load_identity, write_audit_entry
from crawlfleet.api.http.errors import NotAuthenticated
from crawlfleet.api.http.idempotency import IdempotencyKey, make_body_claim
from crawlfleet.api.http.node_access import NotItself, find_node, public_address, require_own_node
from crawlfleet.api.http.parameters import Label
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.routes.nodes import make_join_key
from crawlfleet.api.views.heartbeats import stop_order_views
from crawlfleet.api.views.nodes import require_cluster
from crawlfleet.api.views.tasks import instant_text
from crawlfleet.errors import Conflict, NotAllowed
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.node import Node
from crawlfleet.model.principal import Principal, Role

PREFIX = "/api/distribution"
PAGE_DEFAULT, PAGE_MAX = 50, 500
routes = RouteTable("devices", PREFIX)


async def _device_in_path(
    services: TheServices, device_id: Annotated[str, Path(description="The device id, or the node's id.")]
) -> Node:
    return await find_node(services, device_id)


KnownDevice = Annotated[Node, Depends(_device_in_path)]


@routes.post(
    "/devices/register",
    ResponseSpec(DeviceRegistered, "The device is registered."),
    status=201,
    other_responses={200: ResponseSpec(DeviceRegistered, "It was registered, and announced what is new about it.")},
    name="register",
)
async def register_device(
    request: Request,
    body: DeviceRegistration,
    services: TheServices,
    principal: Principal = allow(Role.ENROL, Role.OPERATOR, Role.NODE),
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Register a device that pulls its tasks. With an enrol token it gets a key of its own, once; with the same
    `Idempotency-Key` again, after a lost answer, it is the same device with a new key. With its own key it keeps that,
    and announces what is new about it."""
    description = body.to_description(public_address(request, principal))
    await services.configure.refresh()
    if principal.node is not None:
        own = await find_node(services, node_text(principal.node))
        if own.description.device_id not in (None, body.device_id):
            await write_audit_entry(request, principal, "node.register.refused", body.device_id)
            raise NotItself(f"this key is that of the device {own.description.device_id!r}")
        if own.is_session_open and not own.description.is_pull_only:
            raise Conflict("this node has an agent, which gets its tasks by sync: a device pulls them")
        announced = await services.register.announce_node(own.id, description)
        await write_audit_entry(request, principal, "node.announce", node_text(own.id), {"name": description.name})
        word = device_word(announced.status, running=0, slots=0)
        return json_response(
            _registered(body, announced.node, word, None, announced.announced_at, announced.lease_ms), 200
        )
    join_key = make_join_key(principal, idempotency_key)
    enrolment = (await load_identity(request)).secret if principal.role is Role.ENROL else None
    claim = make_body_claim("nodes", principal, idempotency_key, body, services.clock.now())
    try:
        done = await services.register.register_node(description, join_key, enrolment=enrolment, claim=claim)
    except NotAllowed as exc:
        raise NotAuthenticated("this token is not valid") from exc
    details = {"name": description.name, "device_id": body.device_id}
    await write_audit_entry(request, principal, "node.register", node_text(done.node), details)
    word = device_word(done.status, running=0, slots=0)
    return json_response(_registered(body, done.node, word, done.secret, done.registered_at, done.lease_ms), 201)


def _registered(
    body: DeviceRegistration, node: int, word: DeviceWord, secret: str | None, registered_at: int, lease_ms: int
) -> DeviceRegistered:
    return DeviceRegistered(
        body.device_id,
        node_text(node),
        word,
        secret,
        body.heartbeat_interval,
        lease_ms / 1000,
        to_text(registered_at),
    )


@routes.get("/devices", DevicePage)
async def list_devices(
    services: TheServices,
    status: Annotated[DeviceWord | None, Query(description="Only those with this status.")] = None,
    device_type: Annotated[Label | None, Query(description="Only those of this type.")] = None,
    cluster: Annotated[Label | None, Query(description="Only those of this cluster.")] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000, description="From 1 on.")] = 1,
    page_size: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """All nodes, by name: those that pull, and those with an agent."""
    if cluster is not None:
        require_cluster(cluster, await services.node_reader.list_clusters())
    nodes = [
        node
        for node in await services.node_reader.list_nodes()
        if cluster in (None, node.description.cluster) and device_type in (None, node.description.node_type)
    ]
    reports = [
        report for report in await services.node_reader.report_nodes(nodes) if status in (None, report_word(report))
    ]
    shown = reports[(page - 1) * page_size : page * page_size]
    views = [device_view(report, services.heartbeat.interval_s(report.node)) for report in shown]
    return json_response(DevicePage(views, len(reports), page, page_size))


@routes.put("/devices/{device_id}/status", DeviceStatusChanged, name="set_status")
async def set_device_status(
    request: Request,
    device: KnownDevice,
    body: DeviceStatusBody,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR, Role.NODE),
) -> Response:
    """`maintenance`: it finishes what it has, or hands it back in time, and gets nothing new until it is `online`
    again. `offline`: its session ends, and its tasks run elsewhere. A device changes only its own status."""
    await require_own_node(request, principal, device.id, "node.status")
    before = await _current_word(services, device)
    match body.status:
        case "online":
            await services.node_changes.make_ready(device.id)
            if principal.node == device.id and device.description.is_pull_only:
                await services.heartbeat.ensure_session(device.id)
        case "maintenance":
            await services.node_changes.drain_node(device.id)
        case "offline":
            await services.node_changes.end_session(device.id)
    details = {"status": body.status, "reason": body.reason}
    await write_audit_entry(request, principal, "node.status", node_text(device.id), details)
    after = await _current_word(services, await find_node(services, node_text(device.id)))
    return json_response(DeviceStatusChanged(device_name(device), after, before))


@routes.post("/devices/{device_id}/heartbeat", DeviceHeartbeatHeard, name="heartbeat")
async def record_device_heartbeat(
    request: Request,
    device: KnownDevice,
    services: TheServices,
    body: DeviceHeartbeat | None = None,
    principal: Principal = allow(Role.NODE, Role.OPERATOR),
) -> Response:
    """Opens the device's session or renews its lease. `cancel` lists what it has to stop."""
    await require_own_node(request, principal, device.id, "node.heartbeat")
    beat = body or DeviceHeartbeat()
    heard = await services.heartbeat.record_heartbeat(device.id, beat.to_measurement(), beat.active_tasks)
    (report,) = await services.node_reader.report_nodes([device])
    answer = DeviceHeartbeatHeard(
        device_name(device),
        device_word(heard.status, running=report.running, slots=device_slots(report)),
        to_text(heard.at),
        heard.next_s,
        heard.stale,
        stop_order_views(heard.stops),
        instant_text(heard.drain_by),
    )
    return json_response(answer)


async def _current_word(services: Services, device: Node) -> DeviceWord:
    (report,) = await services.node_reader.report_nodes([device])
    return report_word(report)
