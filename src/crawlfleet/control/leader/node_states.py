"""Builds the node states that placement works on; outside the leader's pass they are read from the store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.model.node import Cluster, Node
from crawlfleet.model.status import ClusterStatus
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.nodes.health import is_on_trial, trial_slots
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.shared_machines import share_machines


def node_state(
    node: Node, clusters: Mapping[str, Cluster], ledger: SlotLedger, now_mono: float = math.inf
) -> NodeState:
    """The state of one node. `now_mono` is the leader's monotonic time; without it, a node on trial is due a task."""
    cluster = clusters.get(node.description.cluster)
    on_trial = is_on_trial(node)
    if on_trial:
        slots = trial_slots(len(ledger.holds_on(node.id)), ledger.since_assignment_s(node.id, now_mono))
        node = replace(node, slots_wanted=min(node.slots, slots))
    return NodeState(
        node=node,
        cluster_status=cluster.status if cluster else ClusterStatus.ACTIVE,
        cluster_project=cluster.project if cluster else None,
        held=len(ledger.holds_on(node.id)),
        reserved=ledger.reserved_on(node.id),
        is_on_trial=on_trial,
    )


async def node_states(store: PlacementStore, configure: Configure) -> list[NodeState]:
    await configure.refresh()
    nodes = [configure.with_effective_slots(node) for node in await store.load_nodes()]
    clusters = {cluster.name: cluster for cluster in await store.list_clusters()}
    held = await store.held_tasks([node.id for node in nodes])
    rows = [row for tasks in held.values() for row in tasks]
    lanes = {lane.id: lane for lane in await store.load_lanes(sorted({row.lane for row in rows}))}
    ledger = SlotLedger()
    for row in rows:
        ledger.hold_one(row.node, row.execution, lanes[row.lane].requirement, now_mono=0.0)
    states = [node_state(node, clusters, ledger) for node in nodes]
    share_machines(states)
    return states
