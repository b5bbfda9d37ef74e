"""Queues: which there are, paused and resumed."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from crawlfleet.api.auth import allow, audited
from crawlfleet.api.fields import Text
from crawlfleet.api.reply import reply, shows
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.services import TheServices
from crawlfleet.model import limits
from crawlfleet.model.principal import Principal, Role

router = APIRouter(prefix=PREFIX, tags=["queues"])

DEFAULT_QUEUE = "default"
QueueName = Annotated[Text, Path(min_length=1, max_length=limits.LABEL_CHARS)]


class QueueView(msgspec.Struct, frozen=True):
    name: str
    is_paused: bool
    has_pending: bool
    """Tasks stand in it, ready to be placed."""


class QueuesView(msgspec.Struct, frozen=True):
    queues: list[QueueView]


class QueueState(msgspec.Struct, frozen=True):
    name: str
    is_paused: bool
    has_changed: bool


structs = (QueuesView, QueueState)


@router.get("/queues", responses={200: shows(QueuesView, "Those with pending tasks, the paused ones, and `default`.")})
async def list_queues(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    paused = await services.store.paused_queues()
    lanes = await services.store.lanes(await services.store.ready_lanes())
    pending = {lane.queue for lane in lanes}
    names = sorted(paused | pending | {DEFAULT_QUEUE})
    return reply(QueuesView([QueueView(name, name in paused, name in pending) for name in names]))


@router.post("/queues/{name:path}:pause", responses={200: shows(QueueState)})
async def pause(
    name: QueueName, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Its tasks are accepted and kept, but not placed; what runs goes on."""
    has_changed = await services.pause.pause(name)
    await audited(request, principal, "queue.pause", name)
    return reply(QueueState(name, True, has_changed))


@router.post("/queues/{name:path}:resume", responses={200: shows(QueueState)})
async def resume(
    name: QueueName, request: Request, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    has_changed = await services.pause.resume(name)
    await audited(request, principal, "queue.resume", name)
    return reply(QueueState(name, False, has_changed))
