"""Computes the resources that tasks get on their node: when they are delivered, and for explanations.

Only tasks that reserved something have an allocation; all others cost one look at their lane.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.node import DEFAULT_CLUSTER, Node
from crawlfleet.model.queue import LaneId
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.placement.allocation import allocated_amounts, loan_shares

MAX_AGE_S = 5.0
"""Maximum age of the cached list of nodes: a machine seldom gets another agent."""


class ResourceAllocator:
    def __init__(self, *, store: PlacementStore, clock: Clock, configure: Configure) -> None:
        self._store = store
        self._clock = clock
        self._configure = configure
        self._nodes: dict[NodeId, Node] = {}
        self._machines: dict[str, list[NodeId]] = {}
        self._read_at = float("-inf")
        self._refresh_nodes = SingleFlight(self._read_nodes, "machines")

    async def allocate_tasks(self, node: NodeId, rows: Sequence[LiveTask]) -> dict[TaskId, dict[str, float]]:
        """The amount of each resource that tasks get on the node, for those of `rows` that reserve something."""
        requirements = await self._requirements({row.lane for row in rows})
        asking = [row for row in rows if requirements[row.lane].resources]
        if not asking:
            return {}
        shares = await self._loan_shares(node)
        return {row.id: allocated_amounts(requirements[row.lane], shares) for row in asking}

    async def _loan_shares(self, node: NodeId) -> dict[str, float]:
        if self._clock.monotonic() - self._read_at >= MAX_AGE_S:
            await self._refresh_nodes()
        cached_node = self._nodes.get(node)
        if cached_node is None:
            # The node has joined since: the minimum is right in any case.
            return {}
        machine = cached_node.description.machine
        nodes = self._machines[machine] if machine else [node]
        capacity: dict[str, float] = {}
        overcommit = self._configure.cached_config(DEFAULT_CLUSTER).settings.overcommit
        for node_id in nodes:
            for name, amount in self._nodes[node_id].description.resources:
                capacity[name] = max(capacity.get(name, 0.0), amount * overcommit)
        held = await self._store.held_tasks(nodes)
        lanes = Counter(row.lane for rows in held.values() for row in rows)
        requirements = await self._requirements(lanes)
        classes = [(requirements[lane], count) for lane, count in lanes.items()]
        return loan_shares(capacity, classes, cached_node.measurement)

    async def _requirements(self, lanes: set[LaneId] | Counter[LaneId]) -> dict[LaneId, Requirement]:
        return {lane.id: lane.requirement for lane in await self._store.load_lanes(sorted(lanes))}

    async def _read_nodes(self) -> None:
        now_mono = self._clock.monotonic()
        self._nodes = {node.id: node for node in await self._store.load_nodes()}
        machines: dict[str, list[NodeId]] = defaultdict(list)
        for node in self._nodes.values():
            machines[node.description.machine].append(node.id)
        self._machines = machines
        self._read_at = now_mono
