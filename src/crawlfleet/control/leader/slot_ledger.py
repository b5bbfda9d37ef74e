"""The leader's ledger of what each node and each project holds: slots, reservations, and since when by its own clock.

It is a cache of the store. It errs only towards fuller: an execution is added when its assignment is committed and
removed by a hint, and the reconciler finds hints that were lost. It holds executions, not tasks: a task may be back on
a node before the hint has come that it left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crawlfleet.model.ids import ExecutionId, NodeId
from crawlfleet.model.project import Use
from crawlfleet.model.requirement import Requirement

_NO_USE = Use()


class Hold(NamedTuple):
    """A slot held by one execution."""

    requirement: Requirement
    since: float
    """Time of the assignment, in monotonic seconds of the leader."""
    project: str = ""


class LedgerChanges(NamedTuple):
    """Changes that the placer does not know yet."""

    ended: list[tuple[NodeId, Requirement]]
    """Node and class of each task that ended, for nodes that are not in doubt."""
    doubted: set[NodeId]
    """Nodes that may hold something else than the placer has counted."""


class SlotLedger:
    """What nodes and projects hold, by node, execution and project."""

    def __init__(self) -> None:
        self._held: dict[NodeId, dict[ExecutionId, Hold]] = {}
        self._reserved: dict[NodeId, dict[str, float]] = {}
        self._use_by_project: dict[str, Use] = {}
        self._assigned_at: dict[NodeId, float] = {}
        self._ended: list[tuple[NodeId, Requirement]] = []
        self._doubted: set[NodeId] = set()
        self.is_doubted = False
        """Whether hints are known to be lost: the reconciler should run soon."""

    def hold_one(
        self, node: NodeId, execution: ExecutionId, requirement: Requirement, now_mono: float, project: str = ""
    ) -> None:
        self.hold_all([(node, execution)], requirement, now_mono, project)

    def hold_all(
        self,
        pairs: Iterable[tuple[NodeId, ExecutionId]],
        requirement: Requirement,
        now_mono: float,
        project: str = "",
        *,
        is_unknown_to_placer: bool = True,
    ) -> None:
        """Add executions of one class and project, assigned at one time; `is_unknown_to_placer` is False for those that
        the placer has counted already."""
        hold, held, count = Hold(requirement, now_mono, project), self._held, 0
        resources = requirement.resources
        for node, execution in pairs:
            executions = held.get(node)
            if executions is None:
                executions = held[node] = {}
            if execution not in executions:
                executions[execution] = hold
                self._assigned_at[node] = now_mono
                count += 1
                if is_unknown_to_placer:
                    self._doubted.add(node)
                if resources:
                    reserved = self._reserved.get(node)
                    if reserved is None:
                        reserved = self._reserved[node] = {}
                    for name, amount in resources:
                        reserved[name] = reserved.get(name, 0.0) + amount
        if count:
            use = self._use_by_project.get(project)
            if use is None:
                use = self._use_by_project[project] = Use()
            use.add_tasks(requirement, count)

    def release_all(self, freed: Iterable[tuple[NodeId, ExecutionId]]) -> None:
        held, ended = self._held, self._ended
        for node, execution in freed:
            executions = held.get(node)
            hold = executions.pop(execution, None) if executions is not None else None
            if hold is not None:
                ended.append((node, hold.requirement))
                if not executions:
                    # Sums of fractions leave remainders: an empty node starts from zero again.
                    del held[node]
                    self._reserved.pop(node, None)
                elif hold.requirement.resources:
                    reserved = self._reserved[node]
                    for name, amount in hold.requirement.resources:
                        reserved[name] = max(0.0, reserved[name] - amount)
                use = self._use_by_project[hold.project]
                if use.running == 1:
                    del self._use_by_project[hold.project]
                else:
                    use.add_tasks(hold.requirement, -1)

    def holds_on(self, node: NodeId) -> Mapping[ExecutionId, Hold]:
        return self._held.get(node, {})

    def reserved_on(self, node: NodeId) -> dict[str, float]:
        return dict(self._reserved.get(node, ()))

    def project_use(self, project: str) -> Use:
        """What the project's tasks hold on all nodes; not to be changed by the caller."""
        return self._use_by_project.get(project, _NO_USE)

    def pop_changes(self) -> LedgerChanges:
        """Return and clear the changes since the last call."""
        ended, self._ended = self._ended, []
        doubted, self._doubted = self._doubted, set()
        return LedgerChanges([end for end in ended if end[0] not in doubted] if doubted else ended, doubted)

    def mark_doubted(self, nodes: Iterable[NodeId]) -> None:
        """Mark nodes of which the placer has counted something else than is held."""
        self._doubted.update(nodes)

    def __bool__(self) -> bool:
        return bool(self._held)

    def held_pairs(self) -> set[tuple[NodeId, ExecutionId]]:
        return {(node, execution) for node, executions in self._held.items() for execution in executions}

    def held_for_s(self, node: NodeId, execution: ExecutionId, now_mono: float) -> float:
        """Seconds for which this leader has seen the execution held; 0 for an unknown one."""
        hold = self.holds_on(node).get(execution)
        return now_mono - hold.since if hold else 0.0

    def since_assignment_s(self, node: NodeId, now_mono: float) -> float:
        """Seconds since this leader assigned something to the node; infinite if it never did."""
        return now_mono - self._assigned_at.get(node, -math.inf)

    def clear(self) -> None:
        self._doubted.update(self._held)
        self._held.clear()
        self._reserved.clear()
        self._use_by_project.clear()
