"""Whether the process is alive, and whether it can do its work. Asked by machines, without a token."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
import structlog
from starlette.responses import Response

from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.errors import CrawlfleetError

routes = RouteTable("health")


class HealthView(msgspec.Struct, frozen=True):
    status: Literal["ok", "degraded", "unavailable"]
    """Degraded: slower, or results wait at their nodes, and nothing is wrong."""
    reasons: list[str]


log = structlog.get_logger()

STORE_PATIENCE_S = 2.0
_HEALTHY = ResponseSpec(HealthView, "It is.")
_UNHEALTHY = ResponseSpec(HealthView, "It is not, and why.")


@routes.get("/healthz", _HEALTHY, other_responses={503: _UNHEALTHY}, name="healthz")
async def check_health(services: TheServices) -> Response:
    """Alive: the process answers, and every loop of the master still runs."""
    return _health_response(_dead_loops(services))


@routes.get("/readyz", _HEALTHY, other_responses={503: _UNHEALTHY}, name="readyz")
async def check_readiness(services: TheServices) -> Response:
    """Ready: alive, the store answers a query and takes what the loops write, and some master leads. A broker that is
    away makes it slower, and results that cannot be kept wait at their nodes: both are said."""
    return _health_response(
        [*_dead_loops(services), *await _store_complaints(services)],
        services.broker.failure_reason,
        services.chunks.trouble,
    )


def _dead_loops(services: Services) -> list[str]:
    # A task that has ended is not among them any more: asking the event loop itself leaves nothing to believe.
    running = {task.get_name() for task in asyncio.all_tasks() if not task.done()}
    return [
        f"the loop {loop.name} does not run" for loop in services.loops if f"{services.name}:{loop.name}" not in running
    ]


async def _store_complaints(services: Services) -> list[str]:
    try:
        async with asyncio.timeout(STORE_PATIENCE_S):
            row = await services.store.read_leader()
    except (CrawlfleetError, TimeoutError) as exc:
        log.warning("not_ready", error=repr(exc))
        return ["the store does not answer"]
    # A full disk still answers queries.
    if refused := sorted({loop.trouble for loop in services.loops if loop.trouble is not None}):
        return refused
    return [] if row.holder else ["no master leads yet"]


def _health_response(complaints: list[str], *troubles: str | None) -> Response:
    if complaints:
        return json_response(HealthView("unavailable", complaints), 503, {"Retry-After": "1"})
    reasons = [trouble for trouble in troubles if trouble is not None]
    return json_response(HealthView("degraded" if reasons else "ok", reasons))
