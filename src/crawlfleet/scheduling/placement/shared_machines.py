"""Several nodes (agents) on one machine share its resources; each keeps its own slots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from crawlfleet.model.ids import NodeId
from crawlfleet.scheduling.placement.filters import NodeState


def share_machines(states: Sequence[NodeState]) -> None:
    """Let nodes of one machine share one account: what one of them reserves, none of the others has left.

    Each of them declares the machine as it sees it, so the machine has the most that any of them declares.
    """
    machines: dict[str, list[NodeState]] = defaultdict(list)
    for state in states:
        if state.node.description.machine:
            machines[state.node.description.machine].append(state)
    for nodes in machines.values():
        if len(nodes) > 1:
            _share_machine(nodes)


def nodes_by_machine(states: Iterable[NodeState]) -> dict[NodeId, list[NodeState]]:
    """All nodes of the machine of each node that shares one."""
    machines: dict[str, list[NodeState]] = defaultdict(list)
    for state in states:
        if state.is_shared:
            machines[state.node.description.machine].append(state)
    return {state.node.id: nodes for nodes in machines.values() for state in nodes}


def sum_reserved(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    reserved: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            reserved[name] = reserved.get(name, 0.0) + amount
    return reserved


def _share_machine(nodes: list[NodeState]) -> None:
    declared: dict[str, float] = {}
    for state in nodes:
        for name, amount in state.declared.items():
            declared[name] = max(declared.get(name, 0.0), amount)
    reserved = sum_reserved(state.reserved for state in nodes)
    for state in nodes:
        # The very same objects: what the placer deducts on one node shows on all.
        state.declared, state.reserved, state.is_shared = declared, reserved, True
