"""What nodes say of themselves when they join, and what people are shown of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, Field, WithJsonSchema

from crawlfleet.api.http.errors import printable_text
from crawlfleet.api.http.parameters import Body, Label, Name, Text
from crawlfleet.api.views.tasks import instant_text
from crawlfleet.control.nodes.heartbeat import LEASE_INTERVALS, LEASE_UNSET_MS
from crawlfleet.control.nodes.node_reader import NodeReport
from crawlfleet.control.nodes.register import LEASE_MS_MAX
from crawlfleet.control.tasks.task_types import TYPES_MOST
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import node_text, parse_id
from crawlfleet.model.instants import ms, to_text
from crawlfleet.model.node import DEFAULT_CLUSTER, Cluster, Measurement, Node, NodeDescription
from crawlfleet.model.requirement import Capability, canonical_capabilities, canonical_resources
from crawlfleet.model.status import Health
from crawlfleet.ports.node_store import HeartbeatSample

_NUMBER_MOST = 1e12


def _check_address(text: str) -> str:
    if text:
        ip_address(text)
    return text


def _check_device_id(text: str) -> str:
    """It stands in paths in place of an id: it must neither look like one nor end the path."""
    try:
        parse_id(text, "node", field="device_id")
    except InvalidInput:
        return text
    raise ValueError("must not look like the id of a node")


def _check_path_name(text: str) -> str:
    """Clients take these for steps in a path, and ask for something else."""
    if text in {".", ".."}:
        raise ValueError("must not be a dot or two")
    return text


def _check_offered(value: Any) -> Any:
    """One complaint about the field, where a union of types would make one for each of them."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if 0 <= value <= _NUMBER_MOST:
            return value
        raise ValueError(f"a number from 0 to {_NUMBER_MOST:g}")
    words = value if isinstance(value, list) else [value]
    if len(words) > limits.LABELS or not all(isinstance(word, str) and _is_label(word) for word in words):
        raise ValueError(f"a number, or at most {limits.LABELS} words of 1 to {limits.LABEL_CHARS} characters")
    return value


def _is_label(word: str) -> bool:
    return 0 < len(word) <= limits.LABEL_CHARS and "\x00" not in word and word.isprintable()


Offered = Annotated[
    Any,
    AfterValidator(_check_offered),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "number", "minimum": 0, "maximum": _NUMBER_MOST},
                {"type": "string", "minLength": 1, "maxLength": limits.LABEL_CHARS},
                {
                    "type": "array",
                    "maxItems": limits.LABELS,
                    "items": {"type": "string", "minLength": 1, "maxLength": limits.LABEL_CHARS},
                },
            ]
        }
    ),
]
SLOTS_BY_LOAD = "auto"


def _check_slots(value: Any) -> Any:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= limits.SLOTS_MAX
    if value is None or value == SLOTS_BY_LOAD or is_count:
        return value
    raise ValueError(f"0 to {limits.SLOTS_MAX}, {SLOTS_BY_LOAD!r} or null")


SlotsWanted = Annotated[
    Any,
    AfterValidator(_check_slots),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": limits.SLOTS_MAX},
                {"type": "string", "enum": [SLOTS_BY_LOAD]},
                {"type": "null"},
            ]
        }
    ),
]
PathName = Annotated[Label, AfterValidator(_check_path_name), Field(pattern=r"^[^/:?#%\\\s]+$")]
"""Stands in paths."""
DeviceId = Annotated[PathName, AfterValidator(_check_device_id)]
Amount = Annotated[float, Field(ge=0, le=_NUMBER_MOST)]
Share = Annotated[float, Field(ge=0, le=1)]


NodeStatusWord = Literal["pending", "online", "maintenance", "offline", "unresponsive"]


def require_cluster(name: str, clusters: Iterable[Cluster]) -> None:
    """Raises InvalidInput, with those that there are, for a filter by a cluster that does not exist."""
    names = sorted(cluster.name for cluster in clusters)
    if name not in names:
        raise InvalidInput(
            f"no cluster {printable_text(name)!r}; there are {', '.join(names[: limits.LABELS])}", field="cluster"
        )


class NodeRegistration(Body):
    """What a node says of itself when it joins."""

    name: Annotated[Name, Field(min_length=1)]
    description: Annotated[Text, Field(max_length=limits.MESSAGE_CHARS)] = ""
    ip_address: Annotated[Text, AfterValidator(_check_address), Field(max_length=50)] = ""
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    node_type: Label = "standard"
    cluster: PathName = DEFAULT_CLUSTER
    region: Annotated[Text, Field(max_length=limits.LABEL_CHARS)] = ""
    weight: Annotated[float, Field(gt=0, le=1_000)] = 1.0
    slots: Annotated[int, Field(ge=1, le=limits.SLOTS_MAX)] | None = None
    capabilities: Annotated[dict[Label, Offered], Field(max_length=limits.LABELS, default_factory=dict)]
    resources: Annotated[dict[Label, Amount], Field(max_length=limits.LABELS, default_factory=dict)]
    task_types: Annotated[dict[Label, dict[str, Any]], Field(max_length=TYPES_MOST, default_factory=dict)]
    """By name, each with the JSON schema of its parameters."""
    device_id: DeviceId | None = None
    """A handle of your own, unique in the installation; paths take it in place of the id."""
    join_key: Annotated[Name, Field(min_length=1)] | None = None
    """Made and kept by the node: said again, after a lost answer, it is the same node."""
    interval_s: Annotated[float, Field(ge=1, le=LEASE_MS_MAX / 1000 / LEASE_INTERVALS)] | None = None
    """Of a client without an agent: how often it sends a heartbeat."""
    machine_id: Annotated[Text, Field(max_length=limits.LABEL_CHARS)] = ""
    """The same for all nodes of one machine: they share what they declare, and each has its own slots."""
    egress_address: Annotated[Text, AfterValidator(_check_address), Field(max_length=50)] = ""
    """The address that sites see, where it is another one than masters see."""

    def to_description(self, seen_from: str = "") -> NodeDescription:
        # A node that names neither work nor room for it has no agent: it beats and pulls.
        is_pull_only = self.interval_s is not None or (not self.task_types and self.slots is None)
        description = NodeDescription(
            name=self.name,
            description=self.description,
            cluster=self.cluster,
            ip_address=self.ip_address,
            port=self.port,
            node_type=self.node_type,
            region=self.region,
            weight=self.weight,
            slots=self.slots or 1,
            task_types=tuple(sorted(self.task_types)),
            capabilities=canonical_capabilities(self.capabilities),
            resources=tuple(sorted(canonical_resources(self.resources).items())),
            device_id=self.device_id,
            is_pull_only=is_pull_only,
            machine=self.machine_id,
            egress=self.egress_address or seen_from,
        )
        if not is_pull_only:
            return description
        lease_ms = LEASE_UNSET_MS if self.interval_s is None else ms(LEASE_INTERVALS * self.interval_s)
        return replace(description, lease_ms=lease_ms)


class DrainBody(Body):
    within_s: Annotated[float, Field(ge=0, le=7 * 86_400)] = 300.0
    """What is still running then is handed back."""


class SlotsBody(Body):
    slots: SlotsWanted
    """`auto`: as its load allows, within the bounds of its cluster. null: as its cluster says, or else the node."""


class NodeRegistered(msgspec.Struct, frozen=True):
    node_id: str
    registration_time: float
    initial_status: str
    secret: str | None
    """Told this once; only a hash of it is kept. null: as it was."""
    lease_s: float
    ignored_types: Mapping[str, str] = {}
    """Task types whose tasks are checked by another schema than this node's, with the reason. The node runs them all
    the same."""


class MeasurementView(msgspec.Struct, frozen=True):
    cpu: float
    memory: float
    disk: float
    load: float
    network_in_bps: float
    network_out_bps: float
    gpu: float | None
    running: int
    error_rate: float
    start_latency_s: float


class NodeView(msgspec.Struct, frozen=True):
    id: str
    name: str
    status: str
    health: str
    health_details: Mapping[str, Any]
    health_at: str | None
    cluster: str
    node_type: str
    region: str
    weight: float
    slots: int
    """As they count now: what a person set, or else its load or its cluster, or what the node declares."""
    slots_declared: int
    slots_set: int | None
    slots_mode: str
    """`fixed`, or `auto`: they follow its load."""
    running: int
    """Tasks that it holds."""
    measurement: MeasurementView | None
    description: str
    ip_address: str
    port: int
    device_id: str | None
    task_types: tuple[str, ...]
    capabilities: dict[str, Capability]
    resources: dict[str, float]
    is_pull_only: bool
    is_connected: bool
    """It has an open session."""
    lease_s: float
    last_seen_at: str | None
    drain_by: str | None
    created_at: str
    machine_id: str
    egress_address: str
    """Where its requests are taken to come from: nodes that share it share what sites do to it."""
    cluster_id: str
    """The same as `cluster`."""
    health_status: str
    """The same as `health`."""
    health_timestamp: str | None
    """The same as `health_at`."""
    last_heartbeat: str | None
    """The same as `last_seen_at`."""
    updated_at: str
    """When it was heard or judged last."""


class NodeList(msgspec.Struct, frozen=True):
    nodes: list[NodeView]


class HeartbeatView(msgspec.Struct, frozen=True):
    at: str
    measurement: MeasurementView


class HeartbeatHistory(msgspec.Struct, frozen=True):
    node_id: str
    samples: list[HeartbeatView]
    """Oldest first."""


def node_view(report: NodeReport) -> NodeView:
    node = report.node
    description = node.description
    # Of a node that nothing is heard of, nothing is known.
    health, details = (node.health, node.health_details) if node.is_session_open else (Health.UNKNOWN, {})
    heard_at, judged_at = instant_text(node.renewed_at), instant_text(node.health_at)
    return NodeView(
        id=node_text(node.id),
        name=description.name,
        status=node.status.word,
        health=health.word,
        health_details=details,
        health_at=judged_at,
        cluster=description.cluster,
        node_type=description.node_type,
        region=description.region,
        weight=description.weight,
        slots=report.slots,
        slots_declared=description.slots,
        slots_set=node.slots_wanted,
        slots_mode=SLOTS_BY_LOAD if report.follows_load else "fixed",
        running=report.running,
        measurement=measurement_view(report.measurement or node.measurement),
        description=description.description,
        ip_address=description.ip_address,
        port=description.port,
        device_id=description.device_id,
        task_types=description.task_types,
        capabilities=dict(description.capabilities),
        resources=dict(description.resources),
        is_pull_only=description.is_pull_only,
        is_connected=node.is_session_open,
        lease_s=description.lease_ms / 1000,
        last_seen_at=heard_at,
        drain_by=instant_text(node.drain_by),
        created_at=to_text(node.created_at),
        machine_id=description.machine,
        egress_address=description.address,
        cluster_id=description.cluster,
        health_status=health.word,
        health_timestamp=judged_at,
        last_heartbeat=heard_at,
        updated_at=to_text(max(node.created_at, node.renewed_at or 0, node.health_at or 0)),
    )


def history_view(node: Node, samples: Sequence[HeartbeatSample]) -> HeartbeatHistory:
    views = [(to_text(sample.at), measurement_view(sample.measurement)) for sample in samples]
    return HeartbeatHistory(node_text(node.id), [HeartbeatView(at, view) for at, view in views if view is not None])


def measurement_view(measurement: Measurement | None) -> MeasurementView | None:
    if measurement is None:
        return None
    return MeasurementView(
        measurement.cpu,
        measurement.memory,
        measurement.disk,
        measurement.load,
        measurement.network_in_bps,
        measurement.network_out_bps,
        measurement.gpu,
        measurement.running,
        measurement.error_rate,
        measurement.start_latency_s,
    )
