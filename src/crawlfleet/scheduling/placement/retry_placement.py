"""The node that just failed a task is not the one to try it on again, as long as there is another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.scheduling.placement.filters import NodeState

Other = Callable[[NodeId], NodeState | None]
"""Another node than this one with room for a task of the class, or None."""


def avoiding(
    tasks: Sequence[TaskId], chosen: Sequence[NodeState], failed_on: Mapping[TaskId, NodeId], other: Other
) -> list[NodeState]:
    """The nodes for `tasks`, all of one lane, so that none goes back to where it failed where that can be helped.

    Tasks of a lane are alike, so two of them can change places at no cost; `other` is asked only when that is not
    possible. The order of what is left alone stays.
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
