"""Nodes: the record, the lease, and what a node measures of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import Capability
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus

DEFAULT_CLUSTER = "default"


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """What a node says of itself when it joins."""

    name: str
    description: str = ""
    cluster: str = DEFAULT_CLUSTER
    ip_address: str = ""
    port: int = 0
    node_type: str = "standard"
    region: str = ""
    weight: float = 1.0
    slots: int = 1
    task_types: tuple[str, ...] = ()
    capabilities: tuple[tuple[str, Capability], ...] = ()
    resources: tuple[tuple[str, float], ...] = ()
    device_id: str | None = None
    is_pull_only: bool = False
    """A simple client that heartbeats and pulls: nothing is pushed to it."""
    lease_ms: int = 9_000
    machine: str = ""
    """The machine it runs on: nodes of one machine share what they declare. Empty: it has all of it for itself."""
    egress: str = ""
    """The address it was seen to come from."""

    @property
    def address(self) -> str:
        """Where its requests come from, as far as it is known."""
        return self.egress or self.ip_address


@dataclass(frozen=True, slots=True)
class Measurement:
    """Live figures of a node: hints for scores and health, never for state."""

    cpu: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    load: float = 0.0
    network_in_bps: float = 0.0
    network_out_bps: float = 0.0
    gpu: float | None = None
    running: int = 0
    error_rate: float = 0.0
    """The share of its latest executions that failed, for whatever reason: a figure for people, not for its health."""
    start_latency_s: float = 0.0
    ends: tuple[tuple[str, int, int], ...] = ()
    """By task type, since its agent started: executions whose process survived them, and process deaths."""


@dataclass(frozen=True, slots=True)
class Node:
    id: NodeId
    description: NodeDescription
    status: NodeStatus
    health: Health = Health.UNKNOWN
    health_details: Mapping[str, Any] = field(default_factory=dict)
    health_at: Instant | None = None
    session: int = 0
    is_session_open: bool = False
    renewals: int = 0
    renewed_at: Instant | None = None
    measurement: Measurement | None = None
    slots_wanted: int | None = None
    slots_measured: int | None = None
    """What the load it measures allows for: counts where slots follow the load."""
    follows_load: bool = False
    """A person wants its slots to follow its load, whatever its cluster says."""
    drain_by: Instant | None = None
    created_at: Instant = 0
    removed_at: Instant | None = None
    granted: int = 0
    """The newest version of its session's host grants."""
    is_departing: bool = False
    """Its open session said that the node leaves: it is in maintenance until the session ends, and has no slots."""

    @property
    def slots(self) -> int:
        if self.is_departing:
            return 0
        return self.description.slots if self.slots_wanted is None else self.slots_wanted


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    status: ClusterStatus = ClusterStatus.ACTIVE
    description: str = ""
    project: str | None = None
    """Reserved for this project, when set."""
    created_at: Instant | None = field(default=None, compare=False)
    """None for the default cluster, which was always there."""
    changed_at: Instant | None = field(default=None, compare=False)
