"""Placement of retried tasks: not on the node that just failed them, as long as there is another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.scheduling.placement.filters import NodeState

FindOtherNode = Callable[[NodeId], NodeState | None]
"""Function that returns another node than this one with room for a task of the class, or None."""


def avoid_failed_nodes(
    tasks: Sequence[TaskId], chosen: Sequence[NodeState], failed_on: Mapping[TaskId, NodeId], find_other: FindOtherNode
) -> list[NodeState]:
    """The nodes for `tasks`, all of one lane, so that no task goes back to where it failed if that can be avoided.

    Tasks of a lane are alike, so two of them can change places at no cost; `find_other` is called only when that is not
    possible. All other tasks keep their nodes.
    """
    nodes = list(chosen)
    for position, task in enumerate(tasks):
        failed_node = failed_on.get(task)
        if failed_node is None or nodes[position].node.id != failed_node:
            continue
        swap = _find_swap(tasks, nodes, failed_on, position)
        if swap is not None:
            nodes[position], nodes[swap] = nodes[swap], nodes[position]
        elif (other_node := find_other(failed_node)) is not None:
            nodes[position] = other_node
    return nodes


def _find_swap(
    tasks: Sequence[TaskId], nodes: Sequence[NodeState], failed_on: Mapping[TaskId, NodeId], position: int
) -> int | None:
    failed_node = nodes[position].node.id
    for candidate, state in enumerate(nodes):
        if state.node.id != failed_node and failed_on.get(tasks[candidate]) != failed_node:
            return candidate
    return None
