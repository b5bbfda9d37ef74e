"""The leader's memory of what each node holds: slots, reservations, and since when by its own clock.

A cache of the store. It errs only towards fuller: a task is entered when its assignment is committed and leaves with a
hint, and a hint that is lost is found by the reconciler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.requirement import Requirement


class Hold(NamedTuple):
    requirement: Requirement
    since: float
    """Monotonic seconds of the leader."""


class Ledger:
    def __init__(self) -> None:
        self._held: dict[NodeId, dict[TaskId, Hold]] = {}
        self._reserved: dict[NodeId, dict[str, float]] = {}
        self.is_doubted = False
        """Hints are known to be lost: the reconciler should not take its time."""

    def hold(self, node: NodeId, task: TaskId, requirement: Requirement, at: float) -> None:
        self.hold_all([(node, task)], requirement, at)

    def hold_all(self, pairs: Iterable[tuple[NodeId, TaskId]], requirement: Requirement, at: float) -> None:
        """Tasks of one class, assigned at one time."""
        hold, held = Hold(requirement, at), self._held
        for node, task in pairs:
            tasks = held.get(node)
            if tasks is None:
                tasks = held[node] = {}
            if task not in tasks:
                tasks[task] = hold
                if requirement.resources:
                    self._reserve(node, requirement, 1)

    def release(self, freed: Iterable[tuple[NodeId, TaskId]]) -> None:
        held = self._held
        for node, task in freed:
            tasks = held.get(node)
            hold = tasks.pop(task, None) if tasks is not None else None
            if hold is not None:
                if hold.requirement.resources:
                    self._reserve(node, hold.requirement, -1)
                if not tasks:
                    # Sums of fractions leave crumbs: an empty node starts from nothing again.
                    del held[node]
                    self._reserved.pop(node, None)

    def held(self, node: NodeId) -> Mapping[TaskId, Hold]:
        return self._held.get(node, {})

    def reserved(self, node: NodeId) -> dict[str, float]:
        return dict(self._reserved.get(node, ()))

    def __bool__(self) -> bool:
        return bool(self._held)

    def pairs(self) -> set[tuple[NodeId, TaskId]]:
        return {(node, task) for node, tasks in self._held.items() for task in tasks}

    def held_for_s(self, node: NodeId, task: TaskId, at: float) -> float:
        """How long this leader has seen it held; 0 for what it does not know."""
        hold = self.held(node).get(task)
        return at - hold.since if hold else 0.0

    def clear(self) -> None:
        self._held.clear()
        self._reserved.clear()

    def _reserve(self, node: NodeId, requirement: Requirement, sign: int) -> None:
        reserved = self._reserved.setdefault(node, {})
        for name, amount in requirement.resources:
            reserved[name] = max(0.0, reserved.get(name, 0.0) + sign * amount)
