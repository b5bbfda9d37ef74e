"""Nodes: the record with its lease, the description, the measurements and the pulls of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crawlfleet.model.ids import ExecutionId, NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.limits import PRIORITY_MAX
from crawlfleet.model.requirement import Capability
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus

DEFAULT_CLUSTER = "default"
WANT_MAX = 100
"""Most tasks that one pull may ask for."""
WAIT_S_MAX = 20.0
"""Longest wait of a pull."""
ANY_TYPE = "*"
"""Name in the task types of a simple client that takes tasks of every type."""


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node's description of itself when it joins."""

    name: str
    description: str = ""
    cluster: str = DEFAULT_CLUSTER
    ip_address: str = ""
    port: int = 0
    node_type: str = "standard"
    """Type that tasks may require."""
    region: str = ""
    """Region that tasks may prefer or require."""
    weight: float = 1.0
    """Weight of the node for the weighted strategy."""
    slots: int = 1
    """Number of executions that the node declares it can run at once."""
    task_types: tuple[str, ...] = ()
    """Task types that the node can run."""
    capabilities: tuple[tuple[str, Capability], ...] = ()
    """Capabilities by name, sorted."""
    resources: tuple[tuple[str, float], ...] = ()
    """Amounts of resources by name, sorted."""
    device_id: str | None = None
    """Id of the device, unique among nodes; None for none."""
    is_pull_only: bool = False
    """Whether it is a simple client that sends heartbeats and pulls tasks: nothing is pushed to it."""
    lease_ms: int = 9_000
    """Span for which a renewal holds the lease."""
    machine: str = ""
    """Machine that the node runs on: nodes of one machine share the resources they declare. Empty for a node that has
    all of them for itself."""
    egress: str = ""
    """Address that the node was seen to come from."""
    interval_s: float = 0.0
    """Interval of heartbeats that a simple client named; 0 for none."""
    dns_name: str = ""
    """Name under which people reach a device that named no address."""

    @property
    def address(self) -> str:
        """The address its requests come from, as far as it is known."""
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
    """Number of executions that run."""
    error_rate: float = 0.0
    """Share of the latest executions that failed, for whatever reason: a figure for people, not for the node's health.
    """
    start_latency_s: float = 0.0
    """Span that executions take to start."""
    ends: tuple[tuple[str, int, int], ...] = ()
    """Counts by task type since the agent started: executions that their process survived, and process deaths."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it is stored, with its lease."""

    id: NodeId
    description: NodeDescription
    status: NodeStatus
    health: Health = Health.UNKNOWN
    health_details: Mapping[str, Any] = field(default_factory=dict)
    health_at: Instant | None = None
    """Instant of the last change of health."""
    session: int = 0
    """Number of the newest session; 0 before the first."""
    is_session_open: bool = False
    """Whether the newest session is open."""
    renewals: int = 0
    """Number of renewals of the lease."""
    renewed_at: Instant | None = None
    """Instant of the last renewal."""
    measurement: Measurement | None = None
    """Live figures of the last renewal."""
    slots_wanted: int | None = None
    """Number of slots that a person set; None for the number that the node declares."""
    slots_measured: int | None = None
    """Number of slots that the measured load allows; it counts where slots follow the load."""
    follows_load: bool = False
    """Whether a person wants the slots to follow the load, whatever the cluster's configuration is."""
    drain_by: Instant | None = None
    """Instant by which the drain of a node in maintenance ends; None when it is not draining."""
    created_at: Instant = 0
    removed_at: Instant | None = None
    granted: int = 0
    """Newest version of the session's host grants."""
    is_departing: bool = False
    """Whether the open session reported that the node leaves: it is in maintenance until the session ends, and has no
    slots."""

    @property
    def slots(self) -> int:
        """The number of slots without regard to the load: none while the node leaves, else a person's or its own."""
        if self.is_departing:
            return 0
        return self.description.slots if self.slots_wanted is None else self.slots_wanted


@dataclass(frozen=True, slots=True)
class Cluster:
    """A named set of nodes."""

    name: str
    status: ClusterStatus = ClusterStatus.ACTIVE
    description: str = ""
    project: str | None = None
    """Project that the cluster is reserved for, when set."""
    created_at: Instant | None = field(default=None, compare=False)
    """Instant at which the cluster was made; None for the default cluster, which always exists."""
    changed_at: Instant | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PullFilter:
    """The conditions of a pull."""

    max_priority: int = PRIORITY_MAX
    """Highest priority of the tasks."""
    task_types: tuple[str, ...] = ()
    """Types of the tasks; none for all that the node runs."""
    categories: tuple[str, ...] = ()
    """Categories of which the tasks have one; none for all tasks."""


ANY_TASK = PullFilter()


class OpenPull(NamedTuple):
    """An open pull, as the leader sees it."""

    node: NodeId
    session: int
    number: int
    """Number of the pull among those of its node: a new pull ends the one before."""
    want: int
    """Number of tasks that the node asks for."""
    span_ms: int
    """Span for which the pull is open, counted from when the leader sees it first."""
    filter: PullFilter
    held: frozenset[ExecutionId]
    """Executions that the node held when the pull was opened: all others were assigned to this pull."""
