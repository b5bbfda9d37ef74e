"""Builds the node states that placement works on; outside the leader's pass they are read from the store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.model.node import ANY_TASK, Cluster, Node, OpenPull, PullFilter
from crawlfleet.model.status import ClusterStatus
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.nodes.health import is_on_trial, trial_slots
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.pull_slots import pull_slots
from crawlfleet.scheduling.placement.shared_machines import share_machines


def node_state(
    node: Node,
    clusters: Mapping[str, Cluster],
    ledger: SlotLedger,
    now_mono: float = math.inf,
    *,
    pull: OpenPull | None = None,
    pull_filter: PullFilter = ANY_TASK,
    is_by_hand: bool = False,
) -> NodeState:
    """The state of one node. `now_mono` is the leader's monotonic time; without it, a node on trial is due a task.
    `pull` is the open pull of a node that only pulls, `pull_filter` that of its newest pull; `is_by_hand`: a person
    gives it work without one."""
    cluster = clusters.get(node.description.cluster)
    if pull is not None:
        node = replace(node, slots_wanted=pull_slots(pull, node.slots, ledger.holds_on(node.id)))
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
        pull_filter=pull_filter,
        is_pulling=is_by_hand or pull is not None,
    )


async def node_states(store: PlacementStore, configure: Configure, *, is_by_hand: bool = False) -> list[NodeState]:
    """The states of all nodes, from the store. `is_by_hand`: as they are for a person, who gives a node that only pulls
    work for its next pull."""
    await configure.refresh()
    stored = await store.load_nodes()
    pulls = {} if is_by_hand else {pull.node: pull for pull in await store.open_pulls()}
    clusters = {cluster.name: cluster for cluster in await store.list_clusters()}
    held = await store.held_tasks([node.id for node in stored])
    rows = [row for tasks in held.values() for row in tasks]
    lanes = {lane.id: lane for lane in await store.load_lanes(sorted({row.lane for row in rows}))}
    ledger = SlotLedger()
    for row in rows:
        ledger.hold_one(row.node, row.execution, lanes[row.lane].requirement, now_mono=0.0)
    states = []
    for node in stored:
        pull = pulls.get(node.id)
        if pull is not None and (not node.is_session_open or pull.session != node.session):
            pull = None
        is_pulling = is_by_hand or pull is not None
        state = node_state(
            configure.with_effective_slots(node, is_pulling=is_pulling),
            clusters,
            ledger,
            pull=pull,
            pull_filter=ANY_TASK if pull is None else pull.filter,
            is_by_hand=is_by_hand,
        )
        states.append(state)
    share_machines(states)
    return states
