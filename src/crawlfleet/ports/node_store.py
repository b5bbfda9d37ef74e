"""Nodes: who has joined, their sessions and leases, and the clusters they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Measurement, Node, NodeDescription
from crawlfleet.model.project import Project
from crawlfleet.model.queue import Queue
from crawlfleet.model.requirement import LaneId
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.model.task import LiveTask
from crawlfleet.model.transition import Decide
from crawlfleet.ports.idempotency import Claim
from crawlfleet.ports.task_store import Applied


class NewNode(NamedTuple):
    id: NodeId
    join_key: str
    secret_hash: str
    description: NodeDescription
    enrolment: str | None = None
    """Hash of the enrol token it joins with: one use of it, spent in the same transaction."""
    claim: Claim | None = None


class Renewal(NamedTuple):
    node: NodeId
    session: int
    number: int
    measurement: bytes | None
    hosts: bytes | None = None
    """What it says of target hosts, for the leader."""
    is_departing: bool = False
    """The node leaves: from now until its end the session is given no work."""


class Renewed(NamedTuple):
    """The node's row after its renewal; `is_open` false: the session is over; `is_newest` false: an older number."""

    node: NodeId
    is_open: bool
    is_newest: bool
    status: NodeStatus
    slots_wanted: int | None
    drain_by: Instant | None
    is_removed: bool
    came_online: bool = False
    held: Sequence[LiveTask] = ()
    """What the store gives the node, read in the same transaction."""
    slots_measured: int | None = None
    follows_load: bool = False
    granted: int = 0
    """The newest version of the session's host grants."""
    began_departing: bool = False
    """With this renewal."""


class PlacementView(NamedTuple):
    nodes: Sequence[Node]
    clusters: Sequence[Cluster]
    queues: Sequence[Queue]
    projects: Sequence[Project]
    ready_heads: Mapping[LaneId, TaskId]
    """The oldest pending task of every lane that has one."""
    ready_ends: Mapping[LaneId, TaskId]
    """The newest one, of lanes whose queue is last in first out."""

    @property
    def paused_queues(self) -> set[str]:
        return {queue.name for queue in self.queues if queue.is_paused}


class HealthChange(NamedTuple):
    node: NodeId
    had: Health
    """The judgement that this one follows."""
    health: Health
    details: Mapping[str, object]


class HeartbeatSample(NamedTuple):
    at: Instant
    measurement: Measurement


class LeaseRow(NamedTuple):
    node: NodeId
    session: int
    renewals: int
    lease_ms: int


class NodeStore(Protocol):
    async def register(self, node: NewNode, now: Instant) -> NodeId:
        """A new node, pending. The same join key again is the same node, with the new secret and what it says now.

        A lease it holds keeps its length until the next session. Its cluster comes into being with its first node.
        An enrolment costs a node that is known already nothing: it asks again, as its first answer was lost.
        Raises Conflict when the `device_id` is another node's, NotAllowed when the enrolment is over or used up,
        IdempotencyMismatch when the claim's key was used with another body.
        """
        ...

    async def announce(self, node: NodeId, description: NodeDescription, now: Instant, join_key: str | None) -> None:
        """What a known node says of itself now; its secret stays. Raises NotFound for one that is unknown or removed,
        NotAllowed when the `join_key` is not its own, Conflict when the `device_id` is another node's."""
        ...

    async def secret_hash(self, node: NodeId) -> str | None:
        """None for a node that is unknown or removed."""
        ...

    async def node_by_secret(self, secret_hash: str) -> NodeId | None: ...

    async def node_by_device(self, device_id: str) -> NodeId | None: ...

    async def open_session(
        self,
        node: NodeId,
        slots: int,
        task_types: Sequence[str],
        decide: Decide,
        now: Instant,
        *,
        after: int | None = None,
        is_departing: bool = False,
    ) -> tuple[int, Applied | None]:
        """End the node's session and what it held, begin the next one; its number. Raises NotFound.

        With `after`, only if that is still the newest session; otherwise nothing changes and the newest is told.
        """
        ...

    async def renew(self, renewals: Sequence[Renewal], now: Instant) -> list[Renewed]:
        """Raise the lease counters of open sessions, in order; a session that is over is answered, not renewed."""
        ...

    async def end_session(
        self,
        node: NodeId,
        session: int,
        status: NodeStatus,
        decide: Decide,
        now: Instant,
        *,
        renewals: int | None = None,
        term: int | None = None,
    ) -> Applied | None:
        """Close a session and take back what it holds. None when it is not open, or was renewed meanwhile."""
        ...

    async def leases(self) -> list[LeaseRow]:
        """The open sessions."""
        ...

    async def hold(self, node: NodeId, drain_by: Instant | None, is_held: bool, now: Instant) -> bool:
        """Put a node into maintenance (drain until `drain_by`) or back; False when it is unknown.

        A node that is put back is judged anew: its health is unknown until it is measured again.
        """
        ...

    async def set_health(self, changes: Sequence[HealthChange], term: int, now: Instant) -> None:
        """Judgements of nodes; one that follows another judgement than the store's is passed over."""
        ...

    async def note_heartbeats(self, samples: Sequence[tuple[NodeId, bytes]], term: int, now: Instant) -> None:
        """Keep a sample of measurements for history."""
        ...

    async def heartbeat_history(
        self, node: NodeId, since: Instant, until: Instant, limit: int
    ) -> list[HeartbeatSample]:
        """Samples from `since` on and before `until`: the newest so many, oldest first."""
        ...

    async def unregister(self, node: NodeId, now: Instant) -> None:
        """Remove a node: secret revoked, history kept. Raises NotFound.

        An open session is renewed no more: what it holds is free when its lease has ended, not before.
        """
        ...

    async def nodes(self, ids: Sequence[NodeId] | None = None) -> list[Node]:
        """Nodes that are not removed (or those named, removed ones among them)."""
        ...

    async def placement_view(self) -> PlacementView:
        """What the dispatcher looks at once a second, in one go."""
        ...

    async def clusters(self) -> list[Cluster]: ...

    async def put_cluster(self, cluster: Cluster, now: Instant) -> None: ...

    async def drop_cluster(self, name: str, now: Instant) -> None:
        """Remove it with its configuration. Raises NotFound, or Conflict while a node is in it or an open task names
        it."""
        ...
