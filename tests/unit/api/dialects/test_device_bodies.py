"""Bodies of the device dialect: what they become, and the other names they take."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from crawlfleet.api.dialects.device_bodies import DeviceHeartbeat, DeviceRegistration, TaskReport
from crawlfleet.model.node import ANY_TYPE, Measurement


def registration(**fields: Any) -> DeviceRegistration:
    return DeviceRegistration.model_validate({"device_id": "d", **fields})


def test_a_registration_becomes_the_description_of_a_node_that_pulls() -> None:
    body = registration(host="192.0.2.1", task_types=["b", "a", "b"], heartbeat_interval=10)
    description = body.to_description("198.51.100.7")
    assert (description.name, description.device_id, description.is_pull_only) == ("d", "d", True)
    assert (description.task_types, description.ip_address, description.dns_name) == (("a", "b"), "192.0.2.1", "")
    assert (description.egress, description.interval_s, description.lease_ms) == ("198.51.100.7", 10, 300_000)


@pytest.mark.parametrize(
    ("interval_s", "timeout_s", "lease_ms"), [(30, 300, 300_000), (100, 1, 300_000), (1, 3, 3_000), (5, 60, 60_000)]
)
def test_the_lease_is_the_timeout_and_at_least_three_intervals(
    interval_s: float, timeout_s: float, lease_ms: int
) -> None:
    body = registration(heartbeat_interval=interval_s, device_timeout=timeout_s)
    assert body.to_description().lease_ms == lease_ms


def test_a_device_without_types_takes_all_of_them() -> None:
    assert registration().to_description().task_types == (ANY_TYPE,)


def test_other_names_are_the_same_fields() -> None:
    said = {"device_id": "d", "name": "N", "ip_address": "h", "node_type": "t", "slots": 2}
    body = DeviceRegistration.model_validate(said)
    assert (body.device_name, body.host, body.device_type, body.concurrent_tasks) == ("N", "h", "t", 2)
    assert TaskReport.model_validate(
        {"status": "error", "execution_id": "exec-0123456789abcdef", "error": "no"}
    ).error_message == ("no")


@pytest.mark.parametrize("body", [{"device_id": "d", "name": "a", "device_name": "b"}, [], "d", None, {}])
def test_what_is_no_registration_is_refused(body: Any) -> None:
    with pytest.raises(ValidationError):
        DeviceRegistration.model_validate(body)


def test_a_heartbeat_becomes_a_measurement() -> None:
    beat = DeviceHeartbeat.model_validate(
        {
            "cpu_percent": 25,
            "memory_usage": 0.5,
            "gpu_percent": 100,
            "network_in": 3,
            "latency": 0.5,
            "active_tasks": ["a", "b"],
        }
    )
    assert beat.to_measurement() == Measurement(
        cpu=0.25, memory=0.5, gpu=1.0, network_in_bps=3, start_latency_s=0.5, running=2
    )
    assert DeviceHeartbeat().to_measurement() == Measurement()
    assert DeviceHeartbeat().active_tasks is None
