"""The leader's ledger of what each node and each project holds: slots, reservations, and since when by its own clock.

It is a cache of the store. It errs only towards fuller: an execution is added when its assignment is committed and
removed by a hint, and the reconciler finds hints that were lost. It holds executions, not tasks: a task may be back on a
node before the hint has come that it left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crawlfleet.model.ids import ExecutionId, NodeId
from crawlfleet.model.project import Use
from crawlfleet.model.requirement import Requirement

_NOTHING = Use()


class Hold(NamedTuple):
    requirement: Requirement
    since: float
    """Time of the assignment, in monotonic seconds of the leader."""
    project: str = ""


class News(NamedTuple):
    """Changes that the placer does not know yet."""

    ended: list[tuple[NodeId, Requirement]]
    """Node and class of each task that ended, for nodes that are not in doubt."""
    doubted: set[NodeId]
    """Nodes that may hold something else than the placer has counted."""


class Ledger:
    def __init__(self) -> None:
        self._held: dict[NodeId, dict[ExecutionId, Hold]] = {}
        self._reserved: dict[NodeId, dict[str, float]] = {}
        self._use: dict[str, Use] = {}
        self._given_at: dict[NodeId, float] = {}
        self._ended: list[tuple[NodeId, Requirement]] = []
        self._doubted: set[NodeId] = set()
        self.is_doubted = False
        """Whether hints are known to be lost: the reconciler should run soon."""

    def hold(self, node: NodeId, run: ExecutionId, requirement: Requirement, at: float, project: str = "") -> None:
        self.hold_all([(node, run)], requirement, at, project)

    def hold_all(
        self,
        pairs: Iterable[tuple[NodeId, ExecutionId]],
        requirement: Requirement,
        at: float,
        project: str = "",
        *,
        is_news: bool = True,
    ) -> None:
        """Add executions of one class and project, assigned at one time; `is_unknown_to_placer` is False for those that
        the placer has counted already."""
        hold, held, count = Hold(requirement, at, project), self._held, 0
        resources = requirement.resources
        for node, execution in pairs:
            runs = held.get(node)
            if runs is None:
                runs = held[node] = {}
            if execution not in runs:
                runs[execution] = hold
                self._given_at[node] = at
                count += 1
                if is_news:
                    self._doubted.add(node)
                if resources:
                    reserved = self._reserved.get(node)
                    if reserved is None:
                        reserved = self._reserved[node] = {}
                    for name, amount in resources:
                        reserved[name] = reserved.get(name, 0.0) + amount
        if count:
            use = self._use.get(project)
            if use is None:
                use = self._use[project] = Use()
            use.add(requirement, count)

    def release(self, freed: Iterable[tuple[NodeId, ExecutionId]]) -> None:
        held, ended = self._held, self._ended
        for node, execution in freed:
            runs = held.get(node)
            hold = runs.pop(execution, None) if runs is not None else None
            if hold is not None:
                ended.append((node, hold.requirement))
                if not runs:
                    # Sums of fractions leave remainders: an empty node starts from zero again.
                    del held[node]
                    self._reserved.pop(node, None)
                elif hold.requirement.resources:
                    reserved = self._reserved[node]
                    for name, amount in hold.requirement.resources:
                        reserved[name] = max(0.0, reserved[name] - amount)
                use = self._use[hold.project]
                if use.running == 1:
                    del self._use[hold.project]
                else:
                    use.add(hold.requirement, -1)

    def held(self, node: NodeId) -> Mapping[ExecutionId, Hold]:
        return self._held.get(node, {})

    def reserved(self, node: NodeId) -> dict[str, float]:
        return dict(self._reserved.get(node, ()))

    def use(self, project: str) -> Use:
        """What the project's tasks hold on all nodes; not to be changed by the caller."""
        return self._use.get(project, _NOTHING)

    def take_news(self) -> News:
        """Return and clear the changes since the last call."""
        ended, self._ended = self._ended, []
        doubted, self._doubted = self._doubted, set()
        return News([one for one in ended if one[0] not in doubted] if doubted else ended, doubted)

    def doubt(self, nodes: Iterable[NodeId]) -> None:
        """Mark nodes of which the placer has counted something else than is held."""
        self._doubted.update(nodes)

    def __bool__(self) -> bool:
        return bool(self._held)

    def pairs(self) -> set[tuple[NodeId, ExecutionId]]:
        return {(node, execution) for node, runs in self._held.items() for execution in runs}

    def held_for_s(self, node: NodeId, execution: ExecutionId, at: float) -> float:
        """Seconds for which this leader has seen the execution held; 0 for an unknown one."""
        hold = self.held(node).get(execution)
        return at - hold.since if hold else 0.0

    def waited_s(self, node: NodeId, at: float) -> float:
        """Seconds since this leader assigned something to the node; infinite if it never did."""
        return at - self._given_at.get(node, -math.inf)

    def clear(self) -> None:
        self._doubted.update(self._held)
        self._held.clear()
        self._reserved.clear()
        self._use.clear()
