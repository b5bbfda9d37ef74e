"""Heartbeats of simple clients: what they become, and how orders to stop are shown."""

from __future__ import annotations

from crawlfleet.api.views.heartbeats import HeartbeatBody, HeartbeatResources, StopOrderView, stop_order_views
from crawlfleet.control.nodes.heartbeat import StopOrder
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.model.node import Measurement


def test_a_heartbeat_becomes_a_measurement() -> None:
    body = HeartbeatBody(
        resources=HeartbeatResources(cpu_usage=0.5, gpu_usage=0.25, network_in_bps=8),
        load=1.5,
        start_latency_s=0.1,
        active_tasks=["a"],
    )
    assert body.to_measurement() == Measurement(
        cpu=0.5, gpu=0.25, network_in_bps=8, load=1.5, start_latency_s=0.1, running=1
    )


def test_a_client_may_say_nothing_of_its_tasks() -> None:
    assert HeartbeatBody().active_tasks is None
    assert HeartbeatBody(active_tasks=[]).active_tasks == []


def test_orders_are_shown_with_their_ids() -> None:
    assert stop_order_views([StopOrder(1, 2, "drain")]) == [StopOrderView(task_text(1), execution_text(2), "drain")]
