"""Queues: which there are, their order, paused and resumed."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import Path, Request
from pydantic import Field
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import Body, Label, Text
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.model import limits
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("queues", PREFIX)

_NAMES_MOST = 1_000
QueueName = Annotated[Text, Path(min_length=1, max_length=limits.LABEL_CHARS)]


class QueueView(msgspec.Struct, frozen=True):
    name: str
    is_paused: bool
    has_pending: bool
    """Tasks stand in it, ready to be placed."""
    order: str
    """fifo, or lifo: which of two tasks alike is placed first."""


class QueuesView(msgspec.Struct, frozen=True):
    queues: list[QueueView]


class QueueSizesView(msgspec.Struct, frozen=True):
    high: int
    normal: int
    low: int
    retry: int
    """Tasks that failed and wait for their retry, of any class."""


class QueueState(msgspec.Struct, frozen=True):
    name: str
    is_paused: bool
    has_changed: bool


class QueueOrder(msgspec.Struct, frozen=True):
    name: str
    order: str
    has_changed: bool


class QueueBody(Body):
    order: Literal["fifo", "lifo"]
    """`lifo`: what came last is placed first; of every eight tasks of a lane one is its oldest all the same."""


class QueueStates(msgspec.Struct, frozen=True):
    queues: list[QueueState]


class QueueNames(Body):
    names: Annotated[list[Label], Field(min_length=1, max_length=_NAMES_MOST)]


@routes.get("/queues", ResponseSpec(QueuesView, "Those with pending tasks or settings, and `default`."))
async def list_queues(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    reports = await services.queue_reader.list_queues()
    return json_response(
        QueuesView([QueueView(queue.name, queue.is_paused, has_pending, queue.order) for queue, has_pending in reports])
    )


@routes.get("/queues:sizes", QueueSizesView, name="sizes")
async def show_queue_sizes(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """How many tasks wait in each priority class of all queues, from counters; at most a second old. The classes are
    those of `queue.priorities`."""
    return json_response(QueueSizesView(**await services.figures.class_sizes()))


@routes.put("/queues/{name:path}", QueueOrder, name="put")
async def set_queue_order(
    name: QueueName,
    body: QueueBody,
    request: Request,
    services: TheServices,
    principal: Principal = allow(Role.OPERATOR),
) -> Response:
    """Set the order in which its tasks are placed; those that wait already are ordered anew."""
    has_changed = await services.pause.set_order(name, is_lifo=body.order == "lifo")
    await write_audit_entry(request, principal, "queue.put", name, {"order": body.order})
    return json_response(QueueOrder(name, body.order, has_changed))


@routes.post("/queues/{name:path}:pause", QueueState, name="pause")
async def pause_queue(
    name: QueueName, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Its tasks are accepted and kept, but not placed; what runs goes on."""
    has_changed = await services.pause.pause_queue(name)
    await write_audit_entry(request, principal, "queue.pause", name)
    return json_response(QueueState(name, True, has_changed))


@routes.post("/queues/{name:path}:resume", QueueState, name="resume")
async def resume_queue(
    name: QueueName, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    has_changed = await services.pause.resume_queue(name)
    await write_audit_entry(request, principal, "queue.resume", name)
    return json_response(QueueState(name, False, has_changed))


@routes.post("/queues:pause", QueueStates, name="pause_many")
async def pause_queues(
    body: QueueNames, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Pause several queues."""
    states = [QueueState(name, True, await services.pause.pause_queue(name)) for name in dict.fromkeys(body.names)]
    await write_audit_entry(request, principal, "queues.pause", "queues", {"names": body.names})
    return json_response(QueueStates(states))


@routes.post("/queues:resume", QueueStates, name="resume_many")
async def resume_queues(
    body: QueueNames, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Resume several queues."""
    states = [QueueState(name, False, await services.pause.resume_queue(name)) for name in dict.fromkeys(body.names)]
    await write_audit_entry(request, principal, "queues.resume", "queues", {"names": body.names})
    return json_response(QueueStates(states))
