"""Plans a dispatch round: the order of lanes, fair shares, quotas and placement, together and without I/O.

By rank, best first. At each rank the project that was served least for its weight has the next turn; a turn is up to a
quantum of its longest waiting lane, and lanes of one project take turns. A lane whose class finds no node, or whose
project has no quota left, has no more turns in this round; later lanes may still find a node.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.project import WEIGHT_DEFAULT, Project, Use
from crawlfleet.model.queue import LaneId
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.fair_shares import FairSharesByRank
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import LaneOrder, LaneRow, ReadyLane
from crawlfleet.scheduling.placement.placer import ClassKey, Placer
from crawlfleet.scheduling.quotas.project_quota import UNLIMITED, Allowance


class RoundLimits(NamedTuple):
    """Limits of one round."""

    batch: int = 500
    """Most tasks in one round."""
    quantum: int = 128
    """Most tasks of one lane before the next lane of the same rank has a turn."""


@dataclass(frozen=True, slots=True)
class RoundInputs:
    """State of projects and queues that a round goes by."""

    projects: Mapping[str, Project] = field(default_factory=dict)
    """Configured projects, by name."""
    project_use: Callable[[str], Use] = lambda _: Use()
    """Function that returns what a project holds when the round begins."""
    paused_queues: Container[str] = frozenset()
    """Names of paused queues."""
    exhausted_projects: Container[str] = frozenset()
    """Names of projects whose daily quota is exhausted."""


class RoundPlan(NamedTuple):
    """The result of a round: which lanes place tasks on which nodes."""

    nodes: dict[LaneId, list[NodeState]]
    """Nodes for the next tasks of each lane, in order."""
    placed: int
    is_full: bool
    """Whether the batch is full: there may be more to place."""


class _ProjectTurns:
    """The turns of one project's lanes at one rank, round after round; the longest waiting lane goes first."""

    __slots__ = ("_index", "_next_round", "_round", "project", "sizes_left")

    def __init__(self, project: str, row: LaneRow) -> None:
        self.project = project
        self.sizes_left: dict[LaneId, int] = {}
        """Number of tasks left in lanes that had a turn and have more."""
        self._round = row
        self._next_round: list[tuple[TaskId, LaneId, ReadyLane]] = []
        self._index = 0

    def next_lane(self) -> ReadyLane | None:
        if self._index == len(self._round):
            self._round, self._next_round, self._index = self._next_round, [], 0
            if not self._round:
                return None
        ready = self._round[self._index][2]
        self._index += 1
        return ready

    def repeat_lane(self, left: int) -> None:
        """Give the last lane another turn, as it has `left` tasks more."""
        row = self._round[self._index - 1]
        self.sizes_left[row[1]] = left
        self._next_round.append(row)


class DispatchRound:
    """Plans one round."""

    def __init__(
        self,
        placer: Placer,
        shares: FairSharesByRank,
        inputs: RoundInputs,
        limits: RoundLimits,
        with_strategy: Callable[[Requirement], Requirement],
    ) -> None:
        """`with_strategy` adds the strategy to a requirement that names none."""
        self._placer = placer
        self._shares = shares
        self._inputs = inputs
        self._quantum = limits.quantum
        self._batch = limits.batch
        self._with_strategy = with_strategy
        self._nodes: dict[LaneId, list[NodeState]] = {}
        self._full_classes: set[ClassKey] = set()
        """Classes of tasks that find no more node in this round."""
        self._allowances: dict[str, Allowance] = {}
        self._placed = 0

    def plan_round(self, order: LaneOrder, now: Instant) -> RoundPlan:
        for rank, projects in order.lanes_by_rank(now):
            self._serve_rank(rank, projects)
            if self._placed == self._batch or self._are_all_full(order):
                break
        return RoundPlan(self._nodes, self._placed, self._placed == self._batch)

    def _are_all_full(self, order: LaneOrder) -> bool:
        """Whether no class finds a node any more. Classes that nodes tell apart by project or priority have more keys
        than the order counts: then the round goes on to its end."""
        return self._placer.has_plain_classes and len(self._full_classes) == len(order.classes)

    def _serve_rank(self, rank: int, projects: Mapping[str, LaneRow]) -> None:
        shares, projects_by_name = self._shares[rank], self._inputs.projects
        # Between equals the one that waits longest; the name only so that the heap never compares turns.
        heap = [
            (shares.project_tag(project), row[0][0], project, _ProjectTurns(project, row))
            for project, row in projects.items()
        ]
        heapq.heapify(heap)
        while heap and self._placed < self._batch:
            _, oldest, project, turns = heap[0]
            placed = self._take_turn(turns)
            if placed is None:
                heapq.heappop(heap)
            elif placed:
                weight = projects_by_name[project].weight if project in projects_by_name else WEIGHT_DEFAULT
                tag = shares.record_served(project, placed, weight)
                heapq.heapreplace(heap, (tag, oldest, project, turns))

    def _take_turn(self, turns: _ProjectTurns) -> int | None:
        """Place tasks of the project's next lane; returns how many, or None when it has no more turns."""
        project, inputs = turns.project, self._inputs
        if project in inputs.exhausted_projects:
            return None
        allowance = self._allowance(project)
        if allowance is not None and allowance.is_exhausted:
            return None
        ready = turns.next_lane()
        if ready is None:
            return None
        lane = ready.lane
        class_key = self._placer.class_key(lane)
        if class_key in self._full_classes or lane.queue in inputs.paused_queues:
            return 0
        left = turns.sizes_left.get(lane.id, ready.size)
        wanted = min(self._quantum, left, self._batch - self._placed)
        allowed = UNLIMITED if allowance is None else allowance.count_allowed(lane.requirement)
        nodes = (
            self._placer.place_tasks(
                self._with_strategy(lane.requirement), project, min(wanted, allowed), lane.priority
            )
            if allowed
            else []
        )
        if nodes:
            self._nodes.setdefault(lane.id, []).extend(nodes)
            self._placed += len(nodes)
            if allowance is not None:
                allowance.deduct(lane.requirement, len(nodes))
        if len(nodes) < min(wanted, allowed):
            self._full_classes.add(class_key)
        elif allowed > wanted and left > wanted:
            turns.repeat_lane(left - wanted)
        return len(nodes)

    def _allowance(self, project: str) -> Allowance | None:
        """The project's allowance; None if no quota limits it."""
        described = self._inputs.projects.get(project)
        if described is None or not described.quotas.limits_running:
            return None
        allowance = self._allowances.get(project)
        if allowance is None:
            allowance = self._allowances[project] = Allowance(described, self._inputs.project_use(project))
        return allowance
