"""Bodies of the device dialect. Other spellings of a field are taken as well: each body lists them in `other_names`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from crawlfleet.api.http.parameters import Body, Label, Name, Text
from crawlfleet.api.views.heartbeats import ActiveTasks, Latency, LoadAverage
from crawlfleet.api.views.nodes import Amount, DeviceId, Offered, PathName
from crawlfleet.control.nodes.heartbeat import INTERVAL_S, LEASE_INTERVALS, TIMEOUT_S
from crawlfleet.control.nodes.register import LEASE_MS_MAX
from crawlfleet.control.tasks.task_types import TYPES_MOST
from crawlfleet.model import limits
from crawlfleet.model.instants import ms
from crawlfleet.model.node import ANY_TYPE, DEFAULT_CLUSTER, Measurement, NodeDescription
from crawlfleet.model.requirement import canonical_capabilities, canonical_resources

LEASE_S_MAX = LEASE_MS_MAX / 1000
PERCENT_MAX = 100


def _check_share(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError("a share from 0 to 1; a number of per cent goes into the field that ends in _percent")
    return value


Share = Annotated[float, AfterValidator(_check_share), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
Percent = Annotated[float, Field(ge=0, le=PERCENT_MAX)]


class DialectBody(Body):
    """A body whose fields may be spelt in other ways too."""

    other_names: ClassVar[Mapping[str, str]] = {}
    """Field by each of its other names."""

    @model_validator(mode="before")
    @classmethod
    def rename_fields(cls, body: Any) -> Any:
        """Rename the fields; one that is there under both names stays, and is refused as unknown."""
        if not isinstance(body, dict):
            return body
        names = {name: field for name, field in cls.other_names.items() if name in body and field not in body}
        return {names.get(name, name): value for name, value in body.items()}


class DeviceRegistration(DialectBody):
    """What a device says of itself. Also taken: `name`, `ip_address`, `node_type`, `slots`."""

    other_names: ClassVar[Mapping[str, str]] = {
        "name": "device_name",
        "ip_address": "host",
        "node_type": "device_type",
        "slots": "concurrent_tasks",
    }

    device_id: DeviceId
    """A name of your own, unique in the installation."""
    device_name: Annotated[Name, Field(min_length=1)] | None = None
    """For people; the device id unless given."""
    host: Annotated[Text, Field(max_length=limits.NAME_CHARS)] = ""
    """Its address, or its name."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    device_type: Label = "standard"
    region: Annotated[Text, Field(max_length=limits.LABEL_CHARS)] = ""
    weight: Annotated[float, Field(gt=0, le=1_000)] = 1.0
    cluster: PathName = DEFAULT_CLUSTER
    capabilities: Annotated[dict[Label, Offered], Field(max_length=limits.LABELS, default_factory=dict)]
    resources: Annotated[dict[Label, Amount], Field(max_length=limits.LABELS, default_factory=dict)]
    task_types: Annotated[list[Label], Field(max_length=TYPES_MOST, default_factory=list)]
    """The types of tasks it runs; none: all of them."""
    concurrent_tasks: Annotated[int, Field(ge=1, le=limits.SLOTS_MAX)] = 1
    """How many tasks it holds at once."""
    heartbeat_interval: Annotated[float, Field(ge=1, le=LEASE_S_MAX / LEASE_INTERVALS)] = INTERVAL_S
    """Seconds between two heartbeats."""
    device_timeout: Annotated[float, Field(ge=1, le=LEASE_S_MAX)] = TIMEOUT_S
    """Seconds of silence after which it has lost its tasks; at least three intervals."""

    def to_description(self, seen_from: str = "") -> NodeDescription:
        address = ""
        with suppress(ValueError):
            address = str(ip_address(self.host))
        return NodeDescription(
            name=self.device_name or self.device_id,
            cluster=self.cluster,
            ip_address=address,
            port=self.port,
            node_type=self.device_type,
            region=self.region,
            weight=self.weight,
            slots=self.concurrent_tasks,
            task_types=tuple(sorted(set(self.task_types))) or (ANY_TYPE,),
            capabilities=canonical_capabilities(self.capabilities),
            resources=tuple(sorted(canonical_resources(self.resources).items())),
            device_id=self.device_id,
            is_pull_only=True,
            lease_ms=ms(max(LEASE_INTERVALS * self.heartbeat_interval, self.device_timeout)),
            egress=seen_from,
            interval_s=self.heartbeat_interval,
            dns_name="" if address else self.host,
        )


class DeviceStatusBody(Body):
    status: Literal["online", "maintenance", "offline"]
    """`busy` and `timeout` are seen, not set."""
    reason: Annotated[Text, Field(max_length=limits.MESSAGE_CHARS)] = ""
    """For the audit log."""


class DeviceHeartbeat(DialectBody):
    """What a device measures. Each share from 0 to 1 may be a number of per cent instead, in the field that ends in
    `_percent`."""

    other_names: ClassVar[Mapping[str, str]] = {
        "latency": "latency_s",
        "network_in": "network_in_bps",
        "network_out": "network_out_bps",
    }

    cpu_usage: Share | None = None
    memory_usage: Share | None = None
    disk_usage: Share | None = None
    gpu_usage: Share | None = None
    cpu_percent: Percent | None = None
    memory_percent: Percent | None = None
    disk_percent: Percent | None = None
    gpu_percent: Percent | None = None
    load: LoadAverage = 0.0
    error_rate: Share = 0.0
    network_in_bps: Amount = 0.0
    network_out_bps: Amount = 0.0
    latency_s: Latency = 0.0
    """How long its tasks take to start."""
    active_tasks: ActiveTasks | None = None
    """The tasks it runs. Left out, it does not say; named, a task that it was asked to stop and does not name has
    stopped."""

    @field_validator("cpu_percent", "memory_percent", "disk_percent", "gpu_percent")
    @classmethod
    def check_only_one(cls, percent: float | None, info: ValidationInfo) -> float | None:
        usage = str(info.field_name).replace("_percent", "_usage")
        if percent is not None and info.data.get(usage) is not None:
            raise ValueError(f"give it or {usage}, not both")
        return percent

    def to_measurement(self) -> Measurement:
        return Measurement(
            cpu=_as_share(self.cpu_usage, self.cpu_percent) or 0.0,
            memory=_as_share(self.memory_usage, self.memory_percent) or 0.0,
            disk=_as_share(self.disk_usage, self.disk_percent) or 0.0,
            load=self.load,
            network_in_bps=self.network_in_bps,
            network_out_bps=self.network_out_bps,
            gpu=_as_share(self.gpu_usage, self.gpu_percent),
            running=len(self.active_tasks or ()),
            error_rate=self.error_rate,
            start_latency_s=self.latency_s,
        )


def _as_share(usage: float | None, percent: float | None) -> float | None:
    return usage if percent is None else percent / PERCENT_MAX


ReportedWord = Literal["running", "completed", "success", "failed", "error", "timeout", "cancelled", "pending"]


class TaskReport(DialectBody):
    """What became of a task that the device has."""

    other_names: ClassVar[Mapping[str, str]] = {"error": "error_message"}

    status: ReportedWord
    """`running`: it began. `completed` (or `success`), `failed` (or `error`), `timeout`: it ended. `cancelled`: it was
    stopped as asked. `pending`: it is handed back."""
    execution_id: Annotated[str, Field(pattern="^exec-[0-9a-f]{16}$")]
    """As the pull gave it."""
    result: Any = None
    """Of a completed task: any JSON, at most 64 KiB."""
    error_message: Annotated[Text, Field(max_length=limits.MESSAGE_CHARS)] = ""
    error_class: Literal["network", "http", "blocked", "parse", "input", "timeout", "crash", "policy", "internal"] = (
        "internal"
    )
    """`input` and `policy` are not tried again."""
    progress: float | dict[str, Any] | None = None
    """Of a running task: a share from 0 to 1, or figures of its own, at most 2 KiB."""
    metrics: dict[str, Any] | None = None
    """Figures of the execution, at most 16 KiB."""


class AssignDevice(Body):
    device_id: Label
    """A device id, or a node's id."""
