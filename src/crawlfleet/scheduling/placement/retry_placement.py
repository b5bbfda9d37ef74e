"""Placement of retried tasks: not on the node that just failed them, as long as there is another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.scheduling.placement.filters import NodeState

Other = Callable[[NodeId], NodeState | None]
"""Function that returns another node than this one with room for a task of the class, or None."""


def avoiding(
    tasks: Sequence[TaskId], chosen: Sequence[NodeState], failed_on: Mapping[TaskId, NodeId], other: Other
) -> list[NodeState]:
    """The nodes for `tasks`, all of one lane, so that no task goes back to where it failed if that can be avoided.

    Tasks of a lane are alike, so two of them can change places at no cost; `find_other` is called only when that is not
    possible. All other tasks keep their nodes.
    """
    nodes = list(chosen)
    for place, task in enumerate(tasks):
        last = failed_on.get(task)
        if last is None or nodes[place].node.id != last:
            continue
        swap = _place_to_swap(tasks, nodes, failed_on, place)
        if swap is not None:
            nodes[place], nodes[swap] = nodes[swap], nodes[place]
        elif (found := other(last)) is not None:
            nodes[place] = found
    return nodes


def _place_to_swap(
    tasks: Sequence[TaskId], nodes: Sequence[NodeState], failed_on: Mapping[TaskId, NodeId], place: int
) -> int | None:
    last = nodes[place].node.id
    for candidate, state in enumerate(nodes):
        if state.node.id != last and failed_on.get(tasks[candidate]) != last:
            return candidate
    return None
