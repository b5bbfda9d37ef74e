"""Strategies in a running installation: they learn, they avoid, they fall back, and they can say why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from crawlfleet.bootstrap.master import Master, MasterOptions
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.execution.agent.agent import Agent, AgentSettings
from crawlfleet.model.event import Kind
from crawlfleet.model.execution import End
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.status import ErrorClass, NodeStatus, TaskStatus
from crawlfleet.ports.clock import SystemClock
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies import Candidates, StrategyFactory
from crawlfleet.store.store import SqlStore
from crawlfleet.wire.sync import AssignmentBody, MeasurementBody, OutcomeBody
from tests.integration.control.test_end_to_end import LEASE_MS, InProcess, Installation
from tests.integration.faults.faults_kit import EVERYTHING, echo

pytestmark = pytest.mark.integration

SHOP = "http://shop.example/"
_S = TaskStatus


class Executor:
    """Of one node. Sites named in `blocked_by` block it; tasks that name it in `breaks_on` fail there."""

    def __init__(self, name: str, let_go: asyncio.Event) -> None:
        self.name = name
        self.blocked_by: set[str] = set()
        self.given: dict[TaskId, AssignmentBody] = {}
        self._let_go = let_go

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        said = msgspec.json.decode(assignment.parameters)
        self.given[assignment.task] = assignment
        if said.get("hold"):
            await self._let_go.wait()
        if said.get("url") in self.blocked_by:
            return self._failed(assignment, ErrorClass.BLOCKED)
        if self.name in said.get("breaks_on", ()):
            return self._failed(assignment, ErrorClass.NETWORK)
        return OutcomeBody(assignment.task, assignment.execution, int(End.COMPLETED))

    def _failed(self, assignment: AssignmentBody, error: ErrorClass) -> OutcomeBody:
        return OutcomeBody(assignment.task, assignment.execution, int(End.FAILED), int(error), error.word)


class Site(Installation):
    def __init__(self, master: Master, folder: Path) -> None:
        super().__init__(master, folder)
        self.executors: dict[NodeId, Executor] = {}

    async def join(self, name: str, slots: int = 4, **more: Any) -> NodeId:
        said = NodeDescription(name, slots=slots, task_types=("echo",), lease_ms=LEASE_MS, **more)
        joined = await self.master.register.register_node(said, f"join {name}")
        settings = AgentSettings(joined.node, joined.secret, self._folder / name, slots, ["echo"])
        executor = self.executors[joined.node] = Executor(name, self.echo.let_go)
        self.agents[joined.node] = agent = Agent(
            settings, [InProcess(self.master)], executor, clock=SystemClock(), rng=Random(1), measure=MeasurementBody
        )
        self.departures[joined.node] = asyncio.create_task(agent.run())
        await self.until(lambda: self.has_status(joined.node, NodeStatus.ONLINE))
        await self.until(lambda: self.are_placed_on(joined.node))
        return joined.node

    async def nodes_of(self, task: TaskId) -> list[NodeId]:
        return [execution.node for execution in await self.store.task_executions(task)]

    async def ran_on(self, **fields: Any) -> NodeId:
        """Where a new task is completed at once."""
        (task,) = await self.submit(echo(**fields))
        await self.until(lambda: self.are(_S.COMPLETED, task))
        return (await self.nodes_of(task))[-1]

    async def has_learned(self) -> None:
        """Everything that ended so far is evidence."""
        await self.master.relay.wait_for_passes()
        await self.master.learner.wait_for_passes()

    async def failures_told(self) -> list[Mapping[str, Any]]:
        await self.master.relay.wait_for_passes()
        found = await self.store.events_after(0, EVERYTHING)
        return [event.data for event in found if event.kind == Kind.STRATEGY_FAILED]


@asynccontextmanager
async def running(store: SqlStore, folder: Path, **strategies: StrategyFactory) -> AsyncIterator[Site]:
    master = await Master.start(
        "master", store, MemoryBroker(), {"echo": {}}, options=MasterOptions(strategies=strategies)
    )
    site = Site(master, folder)
    loops = asyncio.create_task(master.run())
    try:
        yield site
    finally:
        site.echo.let_go.set()
        await asyncio.gather(*(agent.drain(1.0) for agent in site.agents.values()))
        assert not loops.done(), "a loop ended"
        loops.cancel()
        await asyncio.wait([loops])


async def test_a_blocked_node_is_left_alone_and_so_is_its_address(store: SqlStore, tmp_path: Path) -> None:
    async with running(store, tmp_path) as site:
        blocked = await site.join("blocked", slots=8, egress="198.51.100.7")
        beside = await site.join("beside", slots=8, egress="198.51.100.7")
        other = await site.join("other", slots=1, egress="198.51.100.8")
        site.executors[blocked].blocked_by = site.executors[beside].blocked_by = {SHOP}
        against = {"schedule_strategy": "anti_crawling", "parameters": {"url": SHOP}, "retry": {"base_delay_s": 0.01}}
        # The two at the blocked address are emptier, and are tried first.
        (first,) = await site.submit(echo(**against, capabilities={}))
        await site.until(lambda: site.are(_S.COMPLETED, first))
        assert (await site.nodes_of(first))[-1] == other
        await site.has_learned()
        assert [await site.ran_on(**against) for _ in range(3)] == [other] * 3
        # Another site knows nothing of it.
        elsewhere = against | {"parameters": {"url": "http://news.example"}}
        assert await site.ran_on(**elsewhere) in (blocked, beside)


async def test_content_goes_to_where_such_content_went_well(store: SqlStore, tmp_path: Path) -> None:
    async with running(store, tmp_path) as site:
        clumsy, able = await site.join("clumsy", slots=9), await site.join("able", slots=2)
        features = {"content_type": "html", "technology": "react"}
        learning = {"content_features": features, "parameters": {"breaks_on": ["clumsy"]}, "retry": {"max_retries": 0}}
        # Recorded though they are placed by load alone.
        tasks = await site.submit(*[echo(**learning)] * 9)
        await site.until(site.is_quiet)
        await site.has_learned()
        assert {(await site.nodes_of(task))[0] for task in tasks} >= {clumsy}
        chosen = {"content_features": features, "schedule_strategy": "content_based"}
        assert [await site.ran_on(**chosen) for _ in range(3)] == [able] * 3
        rows = {row.node: row.record for row in await store.load_evidence([("technology", "react")])}
        assert rows[clumsy].failed > 3
        assert rows[clumsy].ok == 0


async def test_a_task_is_not_tried_again_where_it_failed(store: SqlStore, tmp_path: Path) -> None:
    async with running(store, tmp_path) as site:
        large, small = await site.join("large", slots=50), await site.join("small", slots=1)
        for _ in range(2):
            # By load it would be the large one every time.
            (task,) = await site.submit(echo(parameters={"breaks_on": ["large"]}, retry={"base_delay_s": 0.01}))
            await site.until(lambda task=task: site.are(_S.COMPLETED, task))  # type: ignore[misc]
            assert await site.nodes_of(task) == [large, small]


async def test_a_strategy_of_a_users_own_is_used_told_and_replaced_when_it_breaks(
    store: SqlStore, tmp_path: Path
) -> None:
    class Last:
        """The last node to join."""

        is_broken = False

        def __init__(self, candidates: Candidates) -> None:
            if Last.is_broken:
                raise RuntimeError("out of order")

        def cost(self, state: NodeState, given: int) -> float:
            return -state.node.id

        def reason(self, state: NodeState) -> str:
            return "it joined last"

    async with running(store, tmp_path, last=Last) as site:
        await site.join("first", slots=50)
        last = await site.join("last", slots=2)
        await site.master.configure.put_config("default", {"strategy": "last"}, by="ann")
        await site.until(lambda: _uses(site, "last"))
        (held,) = await site.submit(echo(parameters={"hold": True}))
        await site.until(lambda: site.are(_S.PROCESSING, held))
        assert await site.nodes_of(held) == [last]
        why = await site.master.why.explain_task(held)
        assert why.sentence.endswith("; last: it joined last")
        assert why.data["choice"] == {"strategy": "last", "reason": "it joined last"}

        Last.is_broken = True
        # As a master would accept it that has the strategy, while this one leads.
        site.master.configure._strategies = {*site.master.configure.strategy_names, "nobody's"}
        tasks = await site.submit(*[echo(schedule_strategy="last")] * 3, echo(schedule_strategy="nobody's"))
        await site.until(lambda: site.are(_S.COMPLETED, *tasks))
        await site.until(lambda: _told(site, 2))
        told = {data["strategy"]: (data["error"], data["used"]) for data in await site.failures_told()}
        assert told == {
            "last": ("RuntimeError: out of order", "least_loaded"),
            "nobody's": ("this master has no such strategy", "last"),
        }


async def _uses(site: Site, strategy: str) -> bool:
    return site.master.dispatcher.view.default_strategy == strategy


async def _told(site: Site, count: int) -> bool:
    return len(await site.failures_told()) == count


async def test_why_a_node_was_chosen_is_told_among_the_nodes_that_would_do(store: SqlStore, tmp_path: Path) -> None:
    async with running(store, tmp_path) as site:
        for name, slots in (("here-1", 1), ("here-2", 4)):
            await site.join(name, slots, region="here")
        await site.join("there", region="there")
        asked = {"target_region": "here", "require_region": True, "parameters": {"hold": True}}
        tasks = await site.submit(*[echo(schedule_strategy="round_robin", **asked)] * 2)
        await site.until(lambda: site.are(_S.PROCESSING, *tasks))
        for task in tasks:
            why = await site.master.why.explain_task(task)
            assert why.data["choice"]["reason"] == "its turn among 2 nodes"


async def test_what_a_task_reserved_is_shared_by_the_machine_and_told_to_its_node(
    store: SqlStore, tmp_path: Path
) -> None:
    async with running(store, tmp_path) as site:
        machine: dict[str, Any] = {"machine": "m", "resources": (("cpu", 2.0), ("memory_mb", 4_096.0))}
        one, two = await site.join("one", **machine), await site.join("two", **machine)
        asked = {"min_resources": {"cpu": 1, "memory_gb": 1}, "parameters": {"hold": True}}
        first, second, third = await site.submit(*[echo(**asked)] * 3)
        await site.until(lambda: _holds(site, one, two, count=2))
        assert (await site.why(third)) == ("no_node", "0 of 2 nodes: 2 no cpu left")
        why = await site.master.why.explain_task(first)
        assert why.data["choice"]["allocation"] == {"cpu": 1.0, "memory_mb": 1_536.0}
        await site.until(lambda: site.are(_S.PROCESSING, first, second))
        given = site.executors[one].given | site.executors[two].given
        assert {given[task].memory_mb for task in (first, second)} == {1_536}
        await site.master.configure.put_config("default", {"overcommit": 1.5}, by="ann")
        await site.until(lambda: _holds(site, one, two, count=3))


async def _holds(site: Site, *nodes: NodeId, count: int) -> bool:
    return sum([await site.holds(node) for node in nodes]) == count


async def test_each_outcome_is_evidence_once_though_the_leader_changes(store: SqlStore, tmp_path: Path) -> None:
    async with running(store, tmp_path / "a") as site:
        await site.join("node", slots=20)
        await site.submit(*[echo(content_features={"technology": "vue"})] * 30)
        await site.until(site.is_quiet)
        await site.master.relay.wait_for_passes()
    async with running(store, tmp_path / "b") as site:
        await site.master.lead.wait_for_term()
        await site.until(lambda: _has_ok(store, 30))
        await site.has_learned()
        assert await _has_ok(store, 30)


async def _has_ok(store: SqlStore, count: int) -> bool:
    rows = await store.load_evidence([("technology", "vue")])
    return bool(rows) and rows[0].record.ok == pytest.approx(count, rel=1e-3)
