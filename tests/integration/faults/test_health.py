"""Failures and the health of nodes: tasks and sites that fail cost no node its health; a node that fails where others
do not gets a trickle, loses its work to others, and comes back.

The nodes are played; what they measure is measured by the agent's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crawlfleet.control.loops.work_mover import MoveReport
from crawlfleet.execution.agent.events import AgentEvent
from crawlfleet.execution.agent.measurements import NodeMeasurements
from crawlfleet.model.execution import End
from crawlfleet.model.host_stats import empty_row, error_place, record_answer
from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.node import Node
from crawlfleet.model.status import ErrorClass, Health, TaskStatus
from crawlfleet.ports.node_store import HealthChange
from crawlfleet.scheduling.nodes.health import TRIAL_INTERVAL_S
from crawlfleet.wire.sync import HostFiguresBody, MeasurementBody, SyncDown
from tests.integration.faults.faults_kit import Fleet, PlayedNode

pytestmark = pytest.mark.integration

PASS_S = 2.0
ONCE = {"max_retries": 0}
Ends = Callable[[ExecutionId], tuple[End, ErrorClass | None]]
OWN_FAULTS = (
    ErrorClass.NETWORK,
    ErrorClass.HTTP,
    ErrorClass.BLOCKED,
    ErrorClass.PARSE,
    ErrorClass.INPUT,
    ErrorClass.POLICY,
)


def completes(_: ExecutionId) -> tuple[End, ErrorClass | None]:
    return End.COMPLETED, None


def dies(_: ExecutionId) -> tuple[End, ErrorClass | None]:
    return End.DIED_ALONE, ErrorClass.CRASH


class Measured:
    """A played node with the measurements of a real agent."""

    def __init__(self, fleet: Fleet, node: PlayedNode, folder: Path) -> None:
        self.fleet = fleet
        self.node = node
        self.measure = NodeMeasurements(fleet.clock, folder, cgroup=folder)
        self.batches = 0
        self.memory: float | None = None

    async def sync(self, hosts: dict[str, list[int]] | None = None) -> SyncDown:
        measured = self.measure()
        body = MeasurementBody(
            memory=self.memory or 0.3, error_rate=measured.error_rate, ends=measured.ends, running=len(self.node.held)
        )
        figures = None
        if hosts:
            self.batches += 1
            figures = HostFiguresBody(self.node.session, self.batches, list(hosts.items()))
        down = await self.fleet.master.sync.sync(self.node.next_up(measurement=body, figures=figures))
        self.node.take(down)
        return down

    def end(self, execution: ExecutionId, end: End, error: ErrorClass | None) -> None:
        task_type = self.node.held[execution].task_type
        self.node.end(execution, end, error)
        data = {"end": end, "was_started": True, "execution": execution, "task_type": task_type}
        self.measure.handle_event(AgentEvent.EXECUTION_ENDED, data)

    def end_all(self, how: Ends) -> int:
        executions = list(self.node.held)
        for execution in executions:
            self.end(execution, *how(execution))
        return len(executions)

    async def record(self) -> Node:
        return (await self.fleet.store.load_nodes([self.node.id]))[0]

    async def health(self) -> Health:
        return (await self.record()).health


class Play:
    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet = fleet
        self.folder = folder
        self.nodes: list[Measured] = []

    async def node(self, slots: int = 4) -> Measured:
        node = Measured(self.fleet, await self.fleet.node(slots=slots), self.folder)
        self.nodes.append(node)
        return node

    async def turn(self, *hows: Ends, hosts: list[dict[str, list[int]]] | None = None) -> list[int]:
        """Two seconds: tasks are placed and end as each node's `how` says, and the leader looks at the nodes."""
        master, counts = self.fleet.master, []
        await master.stager.run_once(self.fleet.clock.now())
        await self.fleet.dispatch()
        for number, node in enumerate(self.nodes):
            await node.sync()
            counts.append(node.end_all(hows[number % len(hows)]))
            self.fleet.clock.advance(PASS_S / len(self.nodes))
            await node.sync(hosts[number] if hosts else None)
        await master.figure_tallier.run_once(self.fleet.clock.now())
        await master.node_watcher.run_once(self.fleet.clock.now())
        return counts

    async def healths(self) -> list[Health]:
        return [await node.health() for node in self.nodes]

    async def doubt(self, node: Measured) -> None:
        """As after a minute of crashes."""
        reason = {"rule": "crash_rate", "level": "unhealthy", "value": 0.9, "limit": 0.8}
        change = HealthChange(node.node.id, await node.health(), Health.UNHEALTHY, {"reasons": [reason]})
        await self.fleet.store.set_health([change], await self.fleet.lead(), self.fleet.clock.now())
        assert await node.health() is Health.UNHEALTHY

    async def make_ill(self, ill: Measured) -> None:
        """Its processes die, those of the others do not, until it is unhealthy."""
        hows = [dies if node is ill else completes for node in self.nodes]
        for _ in range(40):
            await self.fleet.tasks(4 * len(self.nodes), retry=ONCE)
            await self.turn(*hows)
            if await ill.health() is Health.UNHEALTHY:
                return
        raise AssertionError(f"it is {await ill.health()}")


@pytest.fixture
async def play(fleet: Fleet, tmp_path: Path) -> Play:
    return Play(fleet, tmp_path)


async def test_hundreds_of_tasks_that_fail_by_their_own_fault_cost_no_node_its_health(play: Play) -> None:
    await play.node()
    await play.node()
    bad = await play.fleet.tasks(300, retry=ONCE)
    faults = iter(OWN_FAULTS * 100)

    def fails(_: ExecutionId) -> tuple[End, ErrorClass | None]:
        return End.FAILED, next(faults)

    for _ in range(60):
        await play.turn(fails)
        assert set(await play.healths()) <= {Health.HEALTHY}
    assert {await play.fleet.status(task) for task in bad} == {TaskStatus.FAILED}
    good = await play.fleet.tasks(8)
    assert await play.turn(completes) == [4, 4]
    assert {await play.fleet.status(task) for task in good} == {TaskStatus.COMPLETED}
    await play.fleet.judge()


async def test_a_site_that_is_down_for_all_costs_no_node_its_health(play: Play) -> None:
    await play.node()
    await play.node()
    row = empty_row()
    row[error_place("connect")] = 50
    for _ in range(60):
        await play.turn(completes, hosts=[{"down.example": row}, {"down.example": row}])
    assert await play.healths() == [Health.HEALTHY, Health.HEALTHY]


async def test_a_node_that_alone_does_not_reach_a_site_is_unhealthy(play: Play) -> None:
    lonely, other = await play.node(), await play.node()
    bad, good = empty_row(), empty_row()
    bad[error_place("connect")] = 5
    record_answer(good, 200, 0.1)
    for _ in range(60):
        await play.turn(completes, hosts=[{"a.example": bad}, {"a.example": good}])
    assert await play.healths() == [Health.UNHEALTHY, Health.HEALTHY]
    details = (await lonely.record()).health_details
    assert [reason["rule"] for reason in details["reasons"]] == ["network_rate"]
    assert details["is_on_trial"] is True
    assert (await other.record()).health_details == {}
    # It reaches the site again.
    for _ in range(60):
        await play.turn(completes, hosts=[{"a.example": good}, {"a.example": good}])
    assert await play.healths() == [Health.HEALTHY, Health.HEALTHY]


async def test_the_work_of_a_node_that_keeps_failing_is_moved(play: Play) -> None:
    ill, other = await play.node(slots=8), await play.node(slots=8)
    await play.make_ill(ill)
    # Work that was on it when it became so, and that goes on.
    fleet = play.fleet
    await fleet.master.node_changes.make_ready(ill.node.id)
    await play.turn(completes)
    held = await fleet.tasks(16)
    await fleet.dispatch()
    await ill.sync()
    await other.sync()
    running = [one.task for one in ill.node.held.values()]
    assert len(running) == 8
    other.end_all(completes)
    await other.sync()
    await play.doubt(ill)
    assert await fleet.master.work_mover.run_once(fleet.clock.now()) == MoveReport(moved=8)
    assert await fleet.master.work_mover.run_once(fleet.clock.now()) == MoveReport(moved=0)
    await ill.sync()
    await ill.sync()
    assert {await fleet.status(task) for task in running} == {TaskStatus.PENDING}
    await fleet.dispatch()
    await other.sync()
    await ill.sync()
    assert len(other.node.held) + len(ill.node.held) == 8
    assert len(ill.node.held) <= 1
    for node in play.nodes:
        node.end_all(completes)
        await node.sync()
    assert {await fleet.status(task) for task in held} == {TaskStatus.COMPLETED}
    await fleet.judge()


async def test_of_what_was_placed_while_it_was_judged_one_task_stays_as_its_trial(play: Play) -> None:
    ill, _ = await play.node(), await play.node()
    fleet = play.fleet
    # The leader's view is up to a second old: it places by it after the judgement was stored.
    await fleet.dispatch()
    await play.doubt(ill)
    await fleet.tasks(8)
    fleet.clock.advance(0.1)
    while await fleet.master.dispatcher.run_once(fleet.clock.now()):
        pass
    await ill.sync()
    assert len(ill.node.held) == 4
    assert await fleet.master.work_mover.run_once(fleet.clock.now()) == MoveReport(moved=3)
    await ill.sync()
    assert len(ill.node.held) == 1
    fleet.clock.advance(5.0)
    assert await fleet.master.work_mover.run_once(fleet.clock.now()) == MoveReport(moved=0)


async def test_work_that_no_other_node_would_take_stays(play: Play) -> None:
    ill = await play.node()
    fleet = play.fleet
    await fleet.tasks(4)
    await fleet.dispatch()
    await ill.sync()
    await play.doubt(ill)
    assert await fleet.master.work_mover.run_once(fleet.clock.now()) == MoveReport(moved=0)
    assert len((await ill.sync()).recalls) == 0


async def test_a_node_that_keeps_failing_gets_a_trickle_and_proves_itself(play: Play) -> None:
    ill, other = await play.node(), await play.node()
    await play.make_ill(ill)
    fleet, given = play.fleet, list[int]()
    began_at = fleet.clock.monotonic()
    while await ill.health() is not Health.HEALTHY and len(given) < 200:
        await fleet.tasks(2, retry=ONCE)
        given.append((await play.turn(completes))[0])
    took_s = fleet.clock.monotonic() - began_at
    assert await play.healths() == [Health.HEALTHY, Health.HEALTHY]
    assert took_s < 300
    unhealthy_for = [count for count in given if count <= 1]
    # One at a time, some seconds apart, from the first to the last.
    assert 1 <= sum(given[: len(unhealthy_for)]) <= took_s / TRIAL_INTERVAL_S + 1
    await fleet.tasks(8)
    assert await play.turn(completes) == [4, 4]
    await other.sync()


async def test_a_node_that_still_fails_its_trials_stays_unhealthy(play: Play) -> None:
    ill, _ = await play.node(), await play.node()
    await play.make_ill(ill)
    trials = 0
    for _ in range(150):
        await play.fleet.tasks(2, retry=ONCE)
        trials += (await play.turn(dies, completes))[0]
    assert trials <= 150 * (PASS_S + 1.1) / TRIAL_INTERVAL_S + 1
    assert await ill.health() >= Health.DEGRADED


async def test_ready_clears_the_judgement_at_once(play: Play) -> None:
    ill, _ = await play.node(), await play.node()
    await play.make_ill(ill)
    fleet = play.fleet
    await fleet.master.node_changes.make_ready(ill.node.id)
    record = await ill.record()
    assert (record.health, record.health_details) == (Health.UNKNOWN, {})
    # What it was judged by is forgotten too, by this leader and by the next.
    for _ in range(10):
        await play.turn(completes)
        assert await ill.health() is Health.HEALTHY
    await fleet.start()
    for _ in range(10):
        await play.turn(completes)
        assert await ill.health() is Health.HEALTHY
    await fleet.tasks(8)
    assert await play.turn(completes) == [4, 4]


async def test_a_node_out_of_memory_gets_nothing_and_keeps_what_it_has(play: Play) -> None:
    full, other = await play.node(), await play.node()
    fleet = play.fleet
    await fleet.tasks(8)
    await fleet.dispatch()
    await full.sync()
    await other.sync()
    full.memory = 0.99
    for _ in range(12):
        await full.sync()
        await fleet.master.node_watcher.run_once(fleet.clock.now())
        await fleet.master.work_mover.run_once(fleet.clock.now())
        fleet.clock.advance(1.0)
    assert await full.health() is Health.UNHEALTHY
    assert len(full.node.held) == 4
    await fleet.tasks(8)
    full.end_all(completes)
    await full.sync()
    await fleet.dispatch()
    assert not (await full.sync()).assignments


async def test_a_new_leader_keeps_the_judgement_and_its_reasons(play: Play) -> None:
    ill, _ = await play.node(), await play.node()
    await play.make_ill(ill)
    await play.fleet.start()
    await play.turn(completes)
    record = await ill.record()
    assert record.health is Health.UNHEALTHY
    assert [reason["rule"] for reason in record.health_details["reasons"]] == ["crash_rate"]


async def test_thresholds_are_the_clusters_configuration(play: Play) -> None:
    node, _ = await play.node(), await play.node()
    fleet = play.fleet
    await fleet.master.configure.put_config(
        "default", {"health_memory_unhealthy": None, "health_memory_degraded": 0.2}, "me"
    )
    for _ in range(20):
        await play.turn(completes)
    assert await play.healths() == [Health.DEGRADED, Health.DEGRADED]
    (reason,) = (await node.record()).health_details["reasons"]
    assert (reason["rule"], reason["limit"]) == ("memory", 0.2)


async def test_why_says_that_a_node_is_on_trial(play: Play) -> None:
    ill = await play.node()
    fleet = play.fleet
    await play.doubt(ill)
    await fleet.tasks(1)
    await fleet.dispatch()
    (task,) = await fleet.tasks(1)
    why = await fleet.master.why.explain_task(task)
    assert "on trial after failing where others did not" in why.sentence
