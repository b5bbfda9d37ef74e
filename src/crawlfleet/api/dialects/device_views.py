"""Answers of the device dialect about devices. Instants are ISO 8601 in UTC, usages are shares from 0 to 1."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from crawlfleet.api.views.heartbeats import StopOrderView
from crawlfleet.api.views.tasks import Time, instant_text
from crawlfleet.control.nodes.node_reader import NodeReport
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.node import Measurement, Node
from crawlfleet.model.requirement import Capability
from crawlfleet.model.status import Health, NodeStatus

DeviceWord = Literal["online", "busy", "maintenance", "offline", "timeout"]
DEVICE_WORDS: tuple[DeviceWord, ...] = get_args(DeviceWord)
_WORDS: dict[NodeStatus, DeviceWord] = {
    NodeStatus.PENDING: "offline",
    NodeStatus.ONLINE: "online",
    NodeStatus.MAINTENANCE: "maintenance",
    NodeStatus.OFFLINE: "offline",
    NodeStatus.UNRESPONSIVE: "timeout",
}
_UNMEASURED = Measurement()


class DeviceRegistered(msgspec.Struct, frozen=True):
    device_id: str
    node_id: str
    status: DeviceWord
    api_key: str | None
    """Shown this once; only a hash of it is stored. null: it stays as it was."""
    heartbeat_interval: float
    device_timeout: float
    """Seconds of silence after which the device has lost its tasks."""
    registered_at: Time


class DeviceView(msgspec.Struct, frozen=True):
    """A device: any node, with an agent or without."""

    device_id: str
    node_id: str
    device_name: str
    host: str
    port: int
    device_type: str
    cluster: str
    region: str
    weight: float
    capabilities: dict[str, Capability]
    resources: dict[str, float]
    task_types: tuple[str, ...]
    """`*`: all of them."""
    concurrent_tasks: int
    heartbeat_interval: float
    device_timeout: float
    status: DeviceWord
    """`busy`: online, and every slot is taken. `timeout`: nothing was heard for too long."""
    health: str
    current_tasks: int
    cpu_usage: float
    memory_usage: float
    disk_usage: float
    last_heartbeat: Time | None
    created_at: Time


class DevicePage(msgspec.Struct, frozen=True):
    devices: list[DeviceView]
    total: int
    """How many there are on all pages."""
    page: int
    page_size: int


class DeviceStatusChanged(msgspec.Struct, frozen=True):
    device_id: str
    status: DeviceWord
    previous_status: DeviceWord


class DeviceHeartbeatHeard(msgspec.Struct, frozen=True):
    device_id: str
    status: DeviceWord
    timestamp: Time
    next_heartbeat_s: float
    stale: list[str]
    """Of the active tasks, those that are not the device's: it should stop them."""
    cancel: list[StopOrderView]
    """Executions to stop, each until its status is reported as `cancelled` or `pending`."""
    drain_by: Time | None
    """Of a device in maintenance: by when it should have finished what it has."""


def device_name(node: Node) -> str:
    """Return the device id, or the node's id for a node that has none."""
    return node.description.device_id or node_text(node.id)


def device_word(status: NodeStatus, *, running: int, slots: int) -> DeviceWord:
    """Return the dialect's word for a node's status."""
    return "busy" if status is NodeStatus.ONLINE and running >= slots > 0 else _WORDS[status]


def device_slots(report: NodeReport) -> int:
    """Return the slots of a device: those of a simple client are open only while it pulls, and people see all."""
    return report.node.slots if report.node.description.is_pull_only else report.slots


def report_word(report: NodeReport) -> DeviceWord:
    return device_word(report.node.status, running=report.running, slots=device_slots(report))


def device_view(report: NodeReport, interval_s: float) -> DeviceView:
    """`interval_s` is the interval of heartbeats that the node keeps."""
    node, description = report.node, report.node.description
    measured = report.measurement or node.measurement or _UNMEASURED
    return DeviceView(
        device_id=device_name(node),
        node_id=node_text(node.id),
        device_name=description.name,
        host=description.ip_address or description.dns_name,
        port=description.port,
        device_type=description.node_type,
        cluster=description.cluster,
        region=description.region,
        weight=description.weight,
        capabilities=dict(description.capabilities),
        resources=dict(description.resources),
        task_types=description.task_types,
        concurrent_tasks=device_slots(report),
        heartbeat_interval=interval_s,
        device_timeout=description.lease_ms / 1000,
        status=report_word(report),
        health=(node.health if node.is_session_open else Health.UNKNOWN).word,
        current_tasks=report.running,
        cpu_usage=measured.cpu,
        memory_usage=measured.memory,
        disk_usage=measured.disk,
        last_heartbeat=instant_text(node.renewed_at),
        created_at=to_text(node.created_at),
    )
