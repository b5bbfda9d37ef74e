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
from crawlfleet.model.requirement import LaneId, Requirement, RequirementId
from crawlfleet.scheduling.placement.fair_shares import SharesByRank
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import LaneOrder, ReadyLane, Row
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.quotas.project_quota import UNLIMITED, Allowance


class Pace(NamedTuple):
    batch: int = 500
    """Most tasks in one round."""
    quantum: int = 128
    """Most tasks of one lane before the next lane of the same rank has a turn."""


@dataclass(frozen=True, slots=True)
class Terms:
    """State of projects and queues that a round goes by."""

    projects: Mapping[str, Project] = field(default_factory=dict)
    """Configured projects, by name."""
    use: Callable[[str], Use] = lambda _: Use()
    """Function that returns what a project holds when the round begins."""
    paused: Container[str] = frozenset()
    """Names of paused queues."""
    spent: Container[str] = frozenset()
    """Names of projects whose daily quota is exhausted."""


class Choice(NamedTuple):
    nodes: dict[LaneId, list[NodeState]]
    """Nodes for the next tasks of each lane, in order."""
    placed: int
    is_full: bool
    """Whether the batch is full: there may be more to place."""


class _Turns:
    """The turns of one project's lanes at one rank: they go round all lanes that are left, the longest waiting first."""

    __slots__ = ("_again", "_at", "_round", "left", "project")

    def __init__(self, project: str, row: Row) -> None:
        self.project = project
        self.left: dict[LaneId, int] = {}
        """Number of tasks left in lanes that had a turn and have more."""
        self._round = row
        self._again: list[tuple[TaskId, LaneId, ReadyLane]] = []
        self._at = 0

    def next(self) -> ReadyLane | None:
        if self._at == len(self._round):
            self._round, self._again, self._at = self._again, [], 0
            if not self._round:
                return None
        ready = self._round[self._at][2]
        self._at += 1
        return ready

    def again(self, left: int) -> None:
        """Give the last lane another turn, as it has `left` tasks more."""
        row = self._round[self._at - 1]
        self.left[row[1]] = left
        self._again.append(row)


class Chooser:
    """Plans one round."""

    def __init__(
        self,
        placer: Placer,
        shares: SharesByRank,
        terms: Terms,
        pace: Pace,
        asked: Callable[[Requirement], Requirement],
    ) -> None:
        """`with_strategy` adds the strategy to a requirement that names none."""
        self._placer = placer
        self._shares = shares
        self._terms = terms
        self._quantum = pace.quantum
        self._room = pace.batch
        self._asked = asked
        self._nodes: dict[LaneId, list[NodeState]] = {}
        self._stuck: set[RequirementId | tuple[RequirementId, str]] = set()
        """Classes of tasks that find no more node in this round."""
        self._allowances: dict[str, Allowance] = {}
        self._placed = 0

    def choose(self, order: LaneOrder, now: Instant) -> Choice:
        for rank, projects in order.ranks(now):
            self._serve(rank, projects)
            if self._placed == self._room or len(self._stuck) == len(order.classes):
                break
        return Choice(self._nodes, self._placed, self._placed == self._room)

    def _serve(self, rank: int, projects: Mapping[str, Row]) -> None:
        shares, described = self._shares[rank], self._terms.projects
        # Between equals the one that waits longest; the name only so that the heap never compares turns.
        heap = [(shares.tag(project), row[0][0], project, _Turns(project, row)) for project, row in projects.items()]
        heapq.heapify(heap)
        while heap and self._placed < self._room:
            _, oldest, project, turns = heap[0]
            placed = self._turn(turns)
            if placed is None:
                heapq.heappop(heap)
            elif placed:
                weight = described[project].weight if project in described else WEIGHT_DEFAULT
                tag = shares.serve(project, placed, weight)
                heapq.heapreplace(heap, (tag, oldest, project, turns))

    def _turn(self, turns: _Turns) -> int | None:
        """Place tasks of the project's next lane; returns how many, or None when it has no more turns."""
        project, terms = turns.project, self._terms
        if project in terms.spent:
            return None
        allowance = self._allowance(project)
        if allowance is not None and allowance.is_spent:
            return None
        ready = turns.next()
        if ready is None:
            return None
        lane = ready.lane
        kind = lane.requirement_id if project not in self._placer.reserved_for else (lane.requirement_id, project)
        if kind in self._stuck or lane.queue in terms.paused:
            return 0
        left = turns.left.get(lane.id, ready.size)
        want = min(self._quantum, left, self._room - self._placed)
        may = UNLIMITED if allowance is None else allowance.fit(lane.requirement)
        nodes = self._placer.place(self._asked(lane.requirement), project, min(want, may)) if may else []
        if nodes:
            self._nodes.setdefault(lane.id, []).extend(nodes)
            self._placed += len(nodes)
            if allowance is not None:
                allowance.take(lane.requirement, len(nodes))
        if len(nodes) < min(want, may):
            self._stuck.add(kind)
        elif may > want and left > want:
            turns.again(left - want)
        return len(nodes)

    def _allowance(self, project: str) -> Allowance | None:
        """The project's allowance; None if no quota limits it."""
        described = self._terms.projects.get(project)
        if described is None or not described.quotas.limits_running:
            return None
        allowance = self._allowances.get(project)
        if allowance is None:
            allowance = self._allowances[project] = Allowance(described, self._terms.use(project))
        return allowance
