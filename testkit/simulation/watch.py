"""Watches every commit of the simulation: it checks what must hold at each instant, and not only once all is quiet.

After a transaction that added or assigned tasks the rows themselves are counted; no other count is trusted. A
quota does not concern what runs already: it holds at the instants at which more is accepted or placed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId, TaskId, node_text, task_text
from crawlfleet.model.queue import LaneId
from crawlfleet.model.status import WAITING_STATUSES, NodeStatus, TaskStatus
from testkit.simulation.watch_order import OrderWatch
from testkit.violations import Invariant, Violation

STARVED_MS = 60_000
"""Longest time that a task which could be placed may wait, under faults."""
Look = Callable[..., Sequence[tuple[Any, ...]]]
"""Function that returns rows of the store as they are now, given a statement and its arguments."""
_LANE = "SELECT queue, project, requirement FROM lane WHERE id = ?"
_HELD = "SELECT id, lane, node FROM live WHERE node <> 0"
_PENDING = f"SELECT id, lane FROM live WHERE status = {TaskStatus.PENDING:d}"
_WAITING = (
    "SELECT COUNT(*) FROM live l JOIN lane n ON n.id = l.lane WHERE n.project = ? "
    f"AND l.status IN ({', '.join(f'{status:d}' for status in WAITING_STATUSES)})"
)
# Tasks that a flow makes on its way do not pass admission control.
_ADDED = (
    "SELECT DISTINCT project FROM task WHERE id IN (SELECT value FROM json_each(?)) "
    "AND id NOT IN (SELECT task FROM flow_step WHERE item IS NOT NULL)"
)
_TAKING = (
    "SELECT n.id FROM node n JOIN lease l ON l.node = n.id "
    f"WHERE l.is_open = 1 AND n.status = {int(NodeStatus.ONLINE)} AND n.removed_at IS NULL"
)


class Lane(NamedTuple):
    """A lane, as far as the checks need it."""

    queue: str
    project: str
    resources: Mapping[str, float]


class Capacity(NamedTuple):
    """The capacity of a node."""

    slots: int
    resources: Mapping[str, float]


class _Use:
    """The slots and resources that some tasks hold."""

    def __init__(self) -> None:
        self.running = 0
        self.reserved: Counter[str] = Counter()

    def add(self, lane: Lane) -> None:
        self.running += 1
        self.reserved.update(lane.resources)

    def above(self, running: float | None, resources: Mapping[str, float | None]) -> str | None:
        """Return the first limit that is exceeded."""
        if running is not None and self.running > running:
            return f"{self.running} of {running:g} at once"
        for name, limit in resources.items():
            if limit is not None and self.reserved[name] > limit:
                return f"{self.reserved[name]:g} of {limit:g} {name}"
        return None


class Watch:
    """Checks quotas, capacities and waiting times at every commit."""

    def __init__(self, look: Look, now: Callable[[], int]) -> None:
        self._look = look
        self._now = now
        self.violations: list[Violation] = []
        self.capacity: dict[NodeId, Capacity] = {}
        self._lanes: dict[LaneId, Lane] = {}
        self._quotas: dict[str, Mapping[str, float | None]] = {}
        self._refusing: set[str] = set()
        """Names of projects that refuse a task rather than let it wait for their running quota."""
        self._order = OrderWatch(now)
        self._placeable_since: dict[TaskId, int] = {}

    def lane(self, lane: LaneId) -> Lane:
        cached = self._lanes.get(lane)
        if cached is None:
            ((queue, project, requirement),) = self._look(_LANE, lane)
            cached = Lane(queue, project, dict(msgspec.json.decode(requirement).get("resources", ())))
            self._lanes[lane] = cached
        return cached

    def is_limited(self, lane: LaneId) -> bool:
        """Return whether something other than a slot may keep its tasks waiting."""
        limited = self.lane(lane)
        return bool(limited.resources) or limited.project in self._quotas

    def committed(self, batches: Iterable[EventBatch]) -> None:
        added: list[TaskId] = []
        assigned: list[TaskId] = []
        for batch in batches:
            self._order.observe_batch(batch)
            match batch.kind:
                case Kind.PROJECT_CHANGED:
                    self._learn(batch.shared)
                case Kind.TASK_SUBMITTED:
                    added += batch.each["task"]
                case Kind.TASK_ASSIGNED:
                    assigned += batch.each["task"]
        if added and self._quotas:
            self._judge_admission(added)
        if assigned:
            self._judge_placed(set(assigned))

    def _learn(self, data: Mapping[str, Any]) -> None:
        project = data["project"]
        self._quotas[project] = data["quotas"]
        (self._refusing.add if data["on_full"] == "refuse" else self._refusing.discard)(project)

    def _judge_admission(self, added: Sequence[TaskId]) -> None:
        for (project,) in self._look(_ADDED, msgspec.json.encode(added).decode()):
            quotas = self._quotas.get(project)
            if quotas is None:
                continue
            ((waiting,),) = self._look(_WAITING, project)
            if quotas["waiting"] is not None and waiting > quotas["waiting"]:
                self._say(Invariant.QUOTAS_KEPT, f"{waiting} of {quotas['waiting']} wait in project {project}")
            if project in self._refusing and quotas["running"] is not None:
                running = sum(self.lane(row[1]).project == project for row in self._look(_HELD))
                if running + waiting > quotas["running"]:
                    detail = f"{running} run and {waiting} wait in project {project}, which refuses above"
                    self._say(Invariant.QUOTAS_KEPT, f"{detail} {quotas['running']}")

    def _judge_placed(self, assigned: set[TaskId]) -> None:
        held = self._look(_HELD)
        by_project, by_node = self._uses(held)
        placed = [row for row in held if row[0] in assigned]
        for project in sorted({self.lane(row[1]).project for row in placed} & self._quotas.keys()):
            quotas = self._quotas[project]
            resources = {name: quotas[name] for name in ("cpu", "memory_mb")}
            if above := by_project[project].above(quotas["running"], resources):
                self._say(Invariant.QUOTAS_KEPT, f"project {project} holds {above}")
        for node in sorted({row[2] for row in placed} & self.capacity.keys()):
            if above := by_node[node].above(*self.capacity[node]):
                self._say(Invariant.NEVER_OVERCOMMITTED, f"{node_text(node)} holds {above}")
        lanes: dict[LaneId, list[TaskId]] = defaultdict(list)
        for task, lane, _ in placed:
            lanes[lane].append(task)
        pending: dict[LaneId, list[TaskId]] = defaultdict(list)
        for task, lane in self._look(_PENDING):
            pending[lane].append(task)
        for lane, tasks in lanes.items():
            if late := self._order.placed(lane, self.lane(lane).queue, tasks, pending[lane]):
                detail = f"{task_text(late[0])} was placed before {task_text(late[1])} of the same lane"
                self._say(Invariant.ORDER_KEPT, detail)

    def look_around(self) -> None:
        """Check every few seconds that nothing that could be placed waits for long."""
        by_project, by_node = self._uses(self._look(_HELD))
        nodes = [(by_node[node], self.capacity[node]) for (node,) in self._look(_TAKING) if node in self.capacity]
        since, now = self._placeable_since, self._now()
        self._placeable_since = {
            task: since.get(task, now)
            for task, lane in self._look(_PENDING)
            if self._may_go(self.lane(lane), by_project, nodes)
        }
        for task, placeable_at in self._placeable_since.items():
            if now - placeable_at > STARVED_MS:
                detail = f"{task_text(task)} could have been placed for {(now - placeable_at) / 1000:g} s"
                self._say(Invariant.NONE_STARVES, detail)

    def at_the_end(self) -> list[Violation]:
        return [*self.violations, *(Violation(Invariant.ORDER_KEPT, detail) for detail in self._order.complaints())]

    def _may_go(self, lane: Lane, by_project: Mapping[str, _Use], nodes: Sequence[tuple[_Use, Capacity]]) -> bool:
        quotas = self._quotas.get(lane.project)
        if quotas is not None:
            resources = {name: quotas[name] for name in ("cpu", "memory_mb")}
            if _with(by_project[lane.project], lane).above(quotas["running"], resources):
                return False
        return any(not _with(use, lane).above(*capacity) for use, capacity in nodes)

    def _uses(self, held: Iterable[tuple[Any, ...]]) -> tuple[dict[str, _Use], dict[NodeId, _Use]]:
        by_project: dict[str, _Use] = defaultdict(_Use)
        by_node: dict[NodeId, _Use] = defaultdict(_Use)
        for _, lane, node in held:
            by_project[self.lane(lane).project].add(self.lane(lane))
            by_node[node].add(self.lane(lane))
        return by_project, by_node

    def _say(self, invariant: Invariant, detail: str) -> None:
        self.violations.append(Violation(invariant, detail, self._now()))


def _with(use: _Use, lane: Lane) -> _Use:
    more = _Use()
    more.running, more.reserved = use.running, use.reserved.copy()
    more.add(lane)
    return more
