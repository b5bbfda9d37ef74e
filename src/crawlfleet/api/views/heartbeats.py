"""What simple clients say of themselves with a heartbeat, and what they are answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from pydantic import Field

from crawlfleet.api.http.parameters import Body, Name
from crawlfleet.api.views.nodes import Amount, Share
from crawlfleet.control.nodes.heartbeat import StopOrder
from crawlfleet.model import limits
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.model.node import Measurement

MAX_ACTIVE_TASKS = 2 * limits.SLOTS_MAX
ActiveTasks = Annotated[list[Name], Field(max_length=MAX_ACTIVE_TASKS)]
LoadAverage = Annotated[float, Field(ge=0, le=1e6)]
Latency = Annotated[float, Field(ge=0, le=86_400)]


class HeartbeatResources(Body):
    cpu_usage: Share = 0.0
    memory_usage: Share = 0.0
    disk_usage: Share = 0.0
    gpu_usage: Share | None = None
    network_in_bps: Amount = 0.0
    network_out_bps: Amount = 0.0


class HeartbeatBody(Body):
    resources: HeartbeatResources = HeartbeatResources()
    load: LoadAverage = 0.0
    error_rate: Share = 0.0
    start_latency_s: Latency = 0.0
    """How long its executions take to start."""
    active_tasks: ActiveTasks | None = None
    """The tasks it runs. Left out, it does not say; named, one that it was asked to stop and does not name has
    stopped."""

    def to_measurement(self) -> Measurement:
        use = self.resources
        return Measurement(
            cpu=use.cpu_usage,
            memory=use.memory_usage,
            disk=use.disk_usage,
            load=self.load,
            gpu=use.gpu_usage,
            network_in_bps=use.network_in_bps,
            network_out_bps=use.network_out_bps,
            running=len(self.active_tasks or ()),
            error_rate=self.error_rate,
            start_latency_s=self.start_latency_s,
        )


class StopOrderView(msgspec.Struct, frozen=True):
    """An execution that the node has to stop."""

    task_id: str
    execution_id: str
    reason: str
    """`cancel`, `deadline`, `preempt`, `move` or `drain`."""


class HeartbeatHeard(msgspec.Struct, frozen=True):
    node_id: str
    timestamp: float
    status: str
    stale: list[str]
    """Of the tasks it named, those that are not its own: it should stop them."""
    next_s: float
    """When the next heartbeat is due."""
    cancel: list[StopOrderView] = []
    """Executions to stop, each until it is reported as stopped."""
    drain_by: str | None = None
    """Of a node that is to finish what it has: by when."""


def stop_order_views(orders: Iterable[StopOrder]) -> list[StopOrderView]:
    return [StopOrderView(task_text(order.task), execution_text(order.execution), order.reason) for order in orders]
