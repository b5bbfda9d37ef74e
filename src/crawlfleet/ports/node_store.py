"""The store of nodes, their sessions and leases, and their clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Measurement, Node, NodeDescription
from crawlfleet.model.proxy_health import NodeProxies, ProxyHealth
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.model.task import DecideTransition, LiveTask
from crawlfleet.ports.task_store import Applied, Claim


class NewNode(NamedTuple):
    """A node that is to be registered."""

    id: NodeId
    join_key: str
    """Key that identifies the node when it joins again: the same key is the same node."""
    secret_hash: str
    description: NodeDescription
    enrolment: str | None = None
    """Hash of the enrol token that the node joins with; one use of it is spent in the same transaction."""
    claim: Claim | None = None


class Renewal(NamedTuple):
    """A node's renewal of its lease."""

    node: NodeId
    session: int
    number: int
    """Number of the sync within the session; an older number renews nothing."""
    measurement: bytes | None
    """The node's live figures, as JSON."""
    hosts: bytes | None = None
    """Report on target hosts, for the leader."""
    is_departing: bool = False
    """Whether the node leaves: from now until its end the session is given no work."""


class Renewed(NamedTuple):
    """The node's row after its renewal."""

    node: NodeId
    is_open: bool
    """Whether the session is open; False when it is over."""
    is_newest: bool
    """Whether the renewal's number was the newest; False for an older number."""
    status: NodeStatus
    slots_wanted: int | None
    drain_by: Instant | None
    """Instant by which the node's drain ends; None when it is not draining."""
    is_removed: bool
    came_online: bool = False
    """Whether the node came online with this renewal."""
    held: Sequence[LiveTask] = ()
    """Tasks that the store gives the node, read in the same transaction."""
    slots_measured: int | None = None
    follows_load: bool = False
    granted: int = 0
    """Newest version of the session's host grants."""
    began_departing: bool = False
    """Whether the session began to depart with this renewal."""


class HealthChange(NamedTuple):
    """A new judgement of a node's health."""

    node: NodeId
    had: Health
    """Health that this judgement follows."""
    health: Health
    details: Mapping[str, object]


class HeartbeatSample(NamedTuple):
    """A measurement of a node, kept for its history."""

    at: Instant
    measurement: Measurement


class LeaseRow(NamedTuple):
    """The lease of an open session."""

    node: NodeId
    session: int
    renewals: int
    """Number of renewals: the reaper watches whether it grows."""
    lease_ms: int


class SlotChange(NamedTuple):
    """A change of a node's slots because of its load."""

    node: NodeId
    had: int
    """Number of slots that the change follows."""
    slots: int
    reason: str


class NodeStore(Protocol):
    """Access to nodes, their slots, health and proxies, and their clusters. The rules are those of `ports.store`.

    The number of slots of a node is what a person orders, and what the measured load allows.
    """

    async def load_nodes(self, ids: Sequence[NodeId] | None = None) -> list[Node]:
        """Return nodes that are not removed (or those named, removed ones among them)."""
        ...

    async def set_maintenance(self, node: NodeId, drain_by: Instant | None, is_held: bool, now: Instant) -> bool:
        """Put a node into maintenance (drain until `drain_by`) or back; False when it is unknown.

        A node that is put back is judged anew: its health is unknown until it is measured again.
        """
        ...

    async def set_slots(self, node: NodeId, slots: int | None, now: Instant, *, follows_load: bool = False) -> bool:
        """Store a person's order: this number, or as the load allows, or neither. False when the node is unknown."""
        ...

    async def scale_slots(self, changes: Sequence[SlotChange], term: int, now: Instant) -> set[NodeId]:
        """Set the slots that the load allows; skips a node for which a person has ordered a number meanwhile."""
        ...

    async def set_health(self, changes: Sequence[HealthChange], term: int, now: Instant) -> None:
        """Store health judgements of nodes; one that follows another health than the stored one is ignored."""
        ...

    async def add_heartbeats(self, samples: Sequence[tuple[NodeId, bytes]], term: int, now: Instant) -> None:
        """Store a sample of measurements for history."""
        ...

    async def heartbeat_history(
        self, node: NodeId, since: Instant, until: Instant, limit: int
    ) -> list[HeartbeatSample]:
        """Return the newest `limit` samples from `since` on and before `until`, oldest first."""
        ...

    async def put_node_proxies(self, node: NodeId, proxies: Sequence[ProxyHealth], now: Instant) -> bool:
        """Replace the node's last report on its proxies. False, and nothing is written, for a node that was removed."""
        ...

    async def node_proxies(self) -> list[NodeProxies]:
        """Return the last report on proxies of each node that was not removed."""
        ...

    async def list_clusters(self) -> list[Cluster]: ...

    async def put_cluster(self, cluster: Cluster, now: Instant) -> None: ...

    async def drop_cluster(self, name: str, now: Instant) -> None:
        """Remove a cluster with its configuration.

        Raises NotFound, or Conflict while a node is in it or an open task names it.
        """
        ...


class NodeSessionStore(Protocol):
    """Access to the registration of nodes, their sessions and their leases."""

    async def register_node(self, node: NewNode, now: Instant) -> NodeId:
        """Register a new node, pending. The same join key again is the same node, with the new secret and description.

        A lease it holds keeps its length until the next session. Its cluster is made with its first node.
        An enrolment costs a node that is known already nothing: it repeats the call, as its first answer was lost.
        Raises Conflict when the `device_id` is another node's, NotAllowed when the enrolment is over or used up,
        IdempotencyMismatch when the claim's key was used with another body.
        """
        ...

    async def replace_description(
        self, node: NodeId, description: NodeDescription, now: Instant, join_key: str | None
    ) -> None:
        """Replace the description of a known node; its secret stays.

        Raises NotFound for one that is unknown or removed, NotAllowed when the `join_key` is not its own, Conflict when
        the `device_id` is another node's.
        """
        ...

    async def unregister_node(self, node: NodeId, now: Instant) -> None:
        """Remove a node: its secret is revoked, its history is kept. Raises NotFound.

        An open session can no longer be renewed: what it holds is free when its lease has ended, not before.
        """
        ...

    async def secret_hash(self, node: NodeId) -> str | None:
        """Return the hash of a node's secret; None for a node that is unknown or removed."""
        ...

    async def node_by_device(self, device_id: str) -> NodeId | None: ...

    async def open_session(
        self,
        node: NodeId,
        slots: int,
        task_types: Sequence[str],
        decide: DecideTransition,
        now: Instant,
        *,
        after: int | None = None,
        is_departing: bool = False,
    ) -> tuple[int, Applied | None]:
        """End the node's session and what it held, and begin the next one; returns its number. Raises NotFound.

        With `after`, only if that is still the newest session; otherwise nothing changes and the number of the newest
        is returned.
        """
        ...

    async def renew_leases(self, renewals: Sequence[Renewal], now: Instant) -> list[Renewed]:
        """Raise the lease counters of open sessions, in order; a session that is over is answered, not renewed."""
        ...

    async def end_session(
        self,
        node: NodeId,
        session: int,
        status: NodeStatus,
        decide: DecideTransition,
        now: Instant,
        *,
        renewals: int | None = None,
        term: int | None = None,
    ) -> Applied | None:
        """Close a session and take back what it holds. None when it is not open, or was renewed meanwhile."""
        ...

    async def open_leases(self) -> list[LeaseRow]:
        """Return the leases of the open sessions."""
        ...
