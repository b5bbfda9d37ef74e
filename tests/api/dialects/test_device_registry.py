"""The device dialect: devices register, beat, change their status, and are listed."""

from __future__ import annotations

from typing import Any

import pytest

from crawlfleet.model.ids import node_text, parse_id
from crawlfleet.model.status import NodeStatus
from tests.api.dialects.device_kit import DEVICES, Device
from tests.api.kit import Site, Worker

HEARTBEAT = f"{DEVICES}/dev-1/heartbeat"
STATUS = f"{DEVICES}/dev-1/status"


async def test_a_device_registers_and_gets_its_key_once(site: Site) -> None:
    body = {
        "device_id": "dev-1",
        "name": "Till 7",
        "ip_address": "192.0.2.7",
        "port": 8080,
        "node_type": "arm",
        "region": "eu",
        "slots": 3,
        "task_types": ["scan", "echo"],
        "capabilities": {"javascript_rendering": True},
        "resources": {"cpu_cores": 2},
        "heartbeat_interval": 10,
        "device_timeout": 20,
    }
    answer = await site.post(f"{DEVICES}/register", body, role="enrol")
    assert answer.status == 201
    told = answer.json
    assert (told["device_id"], told["status"], told["heartbeat_interval"]) == ("dev-1", "offline", 10)
    assert told["device_timeout"] == 30.0, "three intervals at least"
    assert told["registered_at"].endswith("Z")
    again = await site.post(f"{DEVICES}/register", body | {"region": "us"}, token=told["api_key"])
    assert (again.status, again.json["api_key"], again.json["node_id"]) == (200, None, told["node_id"])
    (shown,) = (await site.get(DEVICES, role="viewer")).json["devices"]
    assert {name: shown[name] for name in ("device_name", "host", "port", "device_type", "region")} == {
        "device_name": "Till 7",
        "host": "192.0.2.7",
        "port": 8080,
        "device_type": "arm",
        "region": "us",
    }
    assert (shown["concurrent_tasks"], shown["task_types"]) == (3, ["echo", "scan"])
    assert (shown["capabilities"], shown["resources"]) == ({"javascript_rendering": 1.0}, {"cpu": 2.0})
    assert (await site.submit(task_type="scan")).startswith("task-"), "the type is known from then on"


async def test_the_least_that_a_device_says_is_its_id(site: Site) -> None:
    answer = await site.post(f"{DEVICES}/register", {"device_id": "dev-1"}, role="enrol")
    assert (answer.status, answer.json["heartbeat_interval"], answer.json["device_timeout"]) == (201, 30.0, 300.0)
    (shown,) = (await site.get(DEVICES, role="viewer")).json["devices"]
    assert (shown["device_name"], shown["task_types"], shown["status"]) == ("dev-1", ["*"], "offline")


async def test_a_host_may_be_a_name(site: Site) -> None:
    device = await Device.register(site, host="till-7.shop.example")
    assert (await device.shown())["host"] == "till-7.shop.example"


async def test_after_a_lost_answer_the_same_idempotency_key_is_the_same_device(site: Site) -> None:
    body, headers = {"device_id": "dev-1"}, {"Idempotency-Key": "first start"}
    lost = await site.post(f"{DEVICES}/register", body, role="enrol", headers=headers)
    again = await site.post(f"{DEVICES}/register", body, role="enrol", headers=headers)
    assert (again.status, again.json["node_id"]) == (201, lost.json["node_id"])
    assert again.json["api_key"] not in (None, lost.json["api_key"])
    assert (await site.post(HEARTBEAT, token=lost.json["api_key"])).status == 401
    assert (await site.post(HEARTBEAT, token=again.json["api_key"])).status == 200


async def test_a_known_device_id_needs_its_key(site: Site) -> None:
    await Device.register(site)
    answer = await site.post(f"{DEVICES}/register", {"device_id": "dev-1"}, role="enrol")
    assert answer.told[:2] == (409, "conflict")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"device_id": ""}, "device_id"),
        ({"device_id": "a/b"}, "device_id"),
        ({"device_id": "node-0123456789abcdef"}, "device_id"),
        ({"device_id": None}, "device_id"),
        ({"port": 65_536}, "port"),
        ({"weight": 0}, "weight"),
        ({"slots": 0}, "concurrent_tasks"),
        ({"concurrent_tasks": 1, "slots": 2}, "slots"),
        ({"heartbeat_interval": 0.5}, "heartbeat_interval"),
        ({"device_timeout": 3_601}, "device_timeout"),
        ({"host": "a" * 201}, "host"),
        ({"task_types": {"echo": {}}}, "task_types"),
        ({"task_types": ["x" * 101]}, "task_types[0]"),
        ({"resources": {"cpu": -1}}, "resources.cpu"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_bad_registration_is_refused_with_its_field(site: Site, fields: Any, field: str) -> None:
    answer = await site.post(f"{DEVICES}/register", {"device_id": "dev-1", **fields}, role="enrol")
    assert answer.told == (422, "invalid_input", field)
    assert await site.store.load_nodes() == []


async def test_a_device_registers_only_itself(site: Site) -> None:
    device, other = await Device.register(site), await Device.register(site, "dev-2")
    answer = await device.send("POST", f"{DEVICES}/register", {"device_id": "dev-2"})
    assert answer.told[:2] == (403, "not_allowed")
    assert (await other.shown())["node_id"] == other.node
    assert "node.register.refused" in [action for _, action, _ in await site.audited()]


async def test_a_node_with_an_agent_does_not_become_a_device(site: Site, worker: Worker) -> None:
    async def is_online() -> bool:
        return (await site.store.load_nodes([worker.node]))[0].status is NodeStatus.ONLINE

    await site.until(is_online)
    answer = await site.post(f"{DEVICES}/register", {"device_id": "dev-1"}, token=worker._secret)
    assert answer.told[:2] == (409, "conflict")


async def test_viewers_and_nobody_register_nothing(site: Site) -> None:
    assert (await site.post(f"{DEVICES}/register", {"device_id": "d"}, role="viewer")).status == 403
    assert (await site.post(f"{DEVICES}/register", {"device_id": "d"}, role=None)).status == 401


async def test_a_heartbeat_brings_the_device_online_with_what_it_measured(site: Site) -> None:
    device = await Device.register(site, heartbeat_interval=10)
    told = await device.beat(cpu_usage=0.65, memory_percent=40, disk_usage=0.1, load=1.5, error_rate=0.25)
    assert (told["device_id"], told["status"], told["next_heartbeat_s"]) == ("dev-1", "online", 10)
    assert (told["stale"], told["cancel"], told["drain_by"]) == ([], [], None)
    shown = await device.shown()
    assert (shown["status"], shown["cpu_usage"], shown["memory_usage"], shown["disk_usage"]) == (
        "online",
        0.65,
        0.4,
        0.1,
    )
    assert shown["last_heartbeat"].endswith("Z")


async def test_a_heartbeat_may_carry_network_gpu_and_latency(site: Site) -> None:
    device = await Device.register(site)
    await device.beat(network_in_bps=1e6, network_out=2e6, gpu_percent=50, latency_s=0.2)
    node = (await site.get(f"/api/v1/nodes/{device.node}")).json["measurement"]
    assert (node["network_in_bps"], node["network_out_bps"], node["gpu"], node["start_latency_s"]) == (
        1e6,
        2e6,
        0.5,
        0.2,
    )


async def test_a_heartbeat_may_be_empty(site: Site) -> None:
    device = await Device.register(site)
    assert (await device.send("POST", HEARTBEAT)).status == 200
    assert (await device.send("POST", HEARTBEAT, {})).status == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"cpu_usage": 65}, "cpu_usage"),
        ({"memory_usage": -0.1}, "memory_usage"),
        ({"disk_percent": 101}, "disk_percent"),
        ({"cpu_usage": 0.5, "cpu_percent": 50}, "cpu_percent"),
        ({"cpu_usage": "0.5"}, "cpu_usage"),
        ({"error_rate": 2}, "error_rate"),
        ({"active_tasks": "task-1"}, "active_tasks"),
        ({"cpu": 0.5}, "cpu"),
    ],
)
async def test_a_bad_heartbeat_changes_nothing(site: Site, body: Any, field: str) -> None:
    device = await Device.register(site)
    answer = await device.send("POST", HEARTBEAT, body)
    assert answer.told == (422, "invalid_input", field)
    (node,) = await site.store.load_nodes()
    assert (node.status, node.session) == (NodeStatus.PENDING, 0)


async def test_per_cent_in_the_wrong_field_is_explained(site: Site) -> None:
    device = await Device.register(site)
    answer = await device.send("POST", HEARTBEAT, {"cpu_usage": 65})
    assert "_percent" in answer.json["detail"]


async def test_a_device_speaks_only_for_itself(site: Site) -> None:
    device = await Device.register(site)
    await Device.register(site, "dev-2")
    beat = await device.send("POST", f"{DEVICES}/dev-2/heartbeat", {})
    status = await device.send("PUT", f"{DEVICES}/dev-2/status", {"status": "offline"})
    assert [answer.told[:2] for answer in (beat, status)] == [(403, "not_allowed")] * 2
    assert (await device.send("GET", DEVICES)).status == 403


async def test_an_unknown_device_is_not_found(site: Site) -> None:
    for path in (f"{DEVICES}/nobody/heartbeat", f"{DEVICES}/node-0123456789abcdef/heartbeat"):
        assert (await site.post(path, {}, role="operator")).told[:2] == (404, "not_found")


async def test_maintenance_holds_the_device_until_it_is_online_again(site: Site) -> None:
    device = await Device.register(site)
    await device.beat()
    answer = await site.send("PUT", STATUS, {"status": "maintenance", "reason": "new disk"}, role="operator")
    assert answer.json == {"device_id": "dev-1", "status": "maintenance", "previous_status": "online"}
    told = await device.beat()
    assert (told["status"], told["drain_by"][-1]) == ("maintenance", "Z")
    assert (await device.set_status("online"))["status"] == "online"
    assert (await device.beat())["drain_by"] is None
    entry = next(entry for entry in await site.changes() if entry.action == "node.status")
    assert entry.details == {"status": "maintenance", "reason": "new disk"}


async def test_offline_ends_the_session_and_online_opens_the_next(site: Site) -> None:
    device = await Device.register(site)
    await device.beat()
    assert await device.set_status("offline") == {
        "device_id": "dev-1",
        "status": "offline",
        "previous_status": "online",
    }
    assert (await device.set_status("offline"))["status"] == "offline"
    assert (await device.set_status("online"))["status"] == "online"
    (node,) = await site.store.load_nodes()
    assert (node.session, node.is_session_open) == (2, True)


@pytest.mark.parametrize("word", ["busy", "timeout", "unresponsive", "", None, 1])
async def test_a_status_that_is_only_seen_cannot_be_set(site: Site, word: Any) -> None:
    device = await Device.register(site)
    await device.beat()
    answer = await device.send("PUT", STATUS, {"status": word})
    assert answer.told == (422, "invalid_input", "status")
    assert (await device.shown())["status"] == "online"


async def test_devices_are_listed_by_page_and_filter(site: Site, worker: Worker) -> None:
    for number in range(3):
        await Device.register(site, f"dev-{number}", device_type="arm")
    page = (await site.get(f"{DEVICES}?device_type=arm&page=2&page_size=2", role="viewer")).json
    assert [device["device_id"] for device in page["devices"]] == ["dev-2"]
    assert (page["total"], page["page"], page["page_size"]) == (3, 2, 2)
    offline = (await site.get(f"{DEVICES}?status=offline", role="viewer")).json["devices"]
    assert [device["device_id"] for device in offline] == ["dev-0", "dev-1", "dev-2"]
    every = (await site.get(DEVICES, role="viewer")).json
    assert node_text(worker.node) in [device["device_id"] for device in every["devices"]]
    assert all(parse_id(device["node_id"], "node", field="node_id") for device in every["devices"])
    assert (await site.get(f"{DEVICES}?page=9", role="viewer")).json["devices"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=gone", "status"),
        ("page=0", "page"),
        ("page_size=501", "page_size"),
        ("cluster=nowhere", "cluster"),
        ("colour=red", "colour"),
    ],
)
async def test_a_bad_query_is_refused_with_its_field(site: Site, query: str, field: str) -> None:
    assert (await site.get(f"{DEVICES}?{query}", role="viewer")).told == (422, "invalid_input", field)
