"""A master and three agents, all real, in one process: from submit to the last counter."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from crawlfleet.bootstrap.master import Master
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.execution.agent.agent import Agent, AgentSettings, Departure
from crawlfleet.model.event import Event, Kind
from crawlfleet.model.execution import End
from crawlfleet.model.ids import NodeId, TaskId, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.node import Cluster, NodeDescription
from crawlfleet.model.status import ErrorClass, ExecutionStatus, NodeStatus, TaskStatus
from crawlfleet.ports.clock import SystemClock
from crawlfleet.ports.task_store import TaskFilter
from crawlfleet.store.store import SqlStore
from crawlfleet.wire.sync import AssignmentBody, MeasurementBody, OpenDown, OpenUp, OutcomeBody, SyncDown, SyncUp
from testkit.patience import PATIENCE_S
from tests.integration.faults.faults_kit import EVERYTHING, accepted_ids, echo

pytestmark = pytest.mark.integration

LEASE_MS = 4_000
_S = TaskStatus


class InProcess:
    """The way to the master, through the wire's own words."""

    def __init__(self, master: Master) -> None:
        self._master = master

    async def open(self, up: OpenUp) -> OpenDown:
        sent = msgspec.json.decode(msgspec.json.encode(up), type=OpenUp)
        return msgspec.json.decode(
            msgspec.json.encode(await self._master.open_session.open_session(sent)), type=OpenDown
        )

    async def sync(self, up: SyncUp) -> SyncDown:
        sent = msgspec.json.decode(msgspec.json.encode(up), type=SyncUp)
        return msgspec.json.decode(msgspec.json.encode(await self._master.sync.sync(sent)), type=SyncDown)


class Echo:
    """Says what it was told. `hold` keeps it running until it is let go; `fails` so many times before it works."""

    def __init__(self) -> None:
        self.ran: Counter[TaskId] = Counter()
        self.let_go = asyncio.Event()

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        said = msgspec.json.decode(assignment.parameters)
        if said.get("hold"):
            await self.let_go.wait()
        self.ran[assignment.task] += 1
        if assignment.retry < said.get("fails", 0):
            return OutcomeBody(assignment.task, assignment.execution, int(End.FAILED), int(ErrorClass.NETWORK), "again")
        return OutcomeBody(assignment.task, assignment.execution, int(End.COMPLETED), result=assignment.parameters)


class Installation:
    def __init__(self, master: Master, folder: Path) -> None:
        self.master = master
        self.store = master.store
        self.echo = Echo()
        self.agents: dict[NodeId, Agent] = {}
        self.departures: dict[NodeId, asyncio.Task[Departure]] = {}
        self._folder = folder

    async def add_agent(self, name: str, slots: int) -> NodeId:
        description = NodeDescription(name, slots=slots, task_types=("echo",), lease_ms=LEASE_MS)
        joined = await self.master.register.register_node(description, f"join {name}")
        settings = AgentSettings(joined.node, joined.secret, self._folder / name, slots, ["echo"])
        self.agents[joined.node] = agent = Agent(
            settings, [InProcess(self.master)], self.echo, clock=SystemClock(), rng=Random(1), measure=MeasurementBody
        )
        self.departures[joined.node] = asyncio.create_task(agent.run())
        await self.until(lambda: self.has_status(joined.node, NodeStatus.ONLINE))
        return joined.node

    async def until(self, is_true: Callable[[], Awaitable[bool]]) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not await is_true():
            assert asyncio.get_running_loop().time() < deadline, f"still {await self.store.task_totals()}"
            await asyncio.sleep(0.02)

    async def has_status(self, node: NodeId, status: NodeStatus) -> bool:
        return [one.status for one in await self.store.load_nodes([node])] == [status]

    async def are(self, status: TaskStatus, *tasks: TaskId) -> bool:
        return {record.status for record in (await self.store.load_tasks(tasks)).values()} == {status}

    async def is_quiet(self) -> bool:
        return all(status.is_final for status in await self.store.task_totals())

    async def are_placed_on(self, *nodes: NodeId) -> bool:
        """Whether the leader has looked since they came."""
        return {node.id for node in self.master.dispatcher.view.nodes if node.is_session_open}.issuperset(nodes)

    async def holds(self, node: NodeId) -> int:
        return len((await self.store.held_tasks([node]))[node])

    async def submit(self, *bodies: Any) -> list[TaskId]:
        return accepted_ids(await self.master.submit.submit_tasks(bodies))

    async def why(self, task: TaskId) -> tuple[str, str]:
        found = await self.master.why.explain_task(task)
        return found.data["cause"], found.sentence

    async def events(self) -> list[Event]:
        await self.master.relay.wait_for_passes()
        return await self.store.events_after(0, EVERYTHING)


@pytest.fixture
async def installation(store: SqlStore, tmp_path: Path) -> AsyncIterator[Installation]:
    async with running(store, tmp_path) as one:
        yield one


@asynccontextmanager
async def running(store: SqlStore, folder: Path) -> AsyncIterator[Installation]:
    master = await Master.start("master", store, MemoryBroker(), {"echo": {}})
    installation = Installation(master, folder)
    loops = asyncio.create_task(master.run())
    try:
        yield installation
    finally:
        installation.echo.let_go.set()
        leaving = [
            agent.drain(1.0) for node, agent in installation.agents.items() if not installation.departures[node].done()
        ]
        await asyncio.wait_for(asyncio.gather(*leaving), PATIENCE_S)
        assert not loops.done(), "a loop ended"
        loops.cancel()
        await asyncio.wait([loops])


def stories(events: list[Event]) -> dict[TaskId, list[str]]:
    told: dict[TaskId, list[str]] = defaultdict(list)
    for event in events:
        if event.kind.startswith("task."):
            told[event.data["task"]].append(event.kind.removeprefix("task."))
    return told


async def test_five_hundred_tasks_finish_then_one_node_drains_and_another_goes(installation: Installation) -> None:
    one, master, store = installation, installation.master, installation.store
    nodes = [await one.add_agent(f"node {number}", slots=20) for number in range(3)]
    await one.until(lambda: one.are_placed_on(*nodes))
    plain = await one.submit(*(echo(parameters={"n": number}, priority=1 + number % 10) for number in range(440)))
    failing = await one.submit(*[echo(parameters={"fails": 2}, retry={"base_delay_s": 0.01})] * 40)
    children = await one.submit(*(echo(depends_on=[task_text(task)]) for task in failing[:20]))
    await one.until(one.is_quiet)
    assert await store.task_totals() == await store.count_rows() == {_S.COMPLETED: 500}
    assert [one.echo.ran[task] for task in plain] == [1] * 440
    assert [one.echo.ran[task] for task in failing] == [3] * 40
    records = await store.load_tasks([*plain, *failing, *children])
    assert {record.retries for record in records.values()} == {0, 2}
    (execution,) = await store.task_executions(plain[7])
    assert (execution.status, execution.result) == (ExecutionStatus.COMPLETED, records[plain[7]].parameters)
    assert {execution.node for execution in [(await store.task_executions(task))[0] for task in plain]} == set(nodes)

    # One drains: it finishes what it has, takes nothing more, and stays known.
    drained, removed, stays = nodes
    held = await one.submit(*[echo(parameters={"hold": True})] * 30)
    await one.until(lambda: one.are(_S.PROCESSING, *held))
    await master.node_changes.drain_node(drained, within_s=60)
    before = await one.holds(drained)
    assert before > 0
    more = await one.submit(*[echo()] * 30)
    await one.until(lambda: one.are(_S.COMPLETED, *more))
    assert drained not in {(await store.task_executions(task))[0].node for task in more}
    assert await one.holds(drained) == before

    # Another is removed with work on it: that is free when its lease has ended, and runs elsewhere.
    lost = {row.id for row in (await store.held_tasks([removed]))[removed]}
    assert lost
    await master.node_changes.unregister_node(removed)
    assert await asyncio.wait_for(one.departures[removed], PATIENCE_S) is Departure.REMOVED
    one.echo.let_go.set()
    await one.until(one.is_quiet)
    for task in held:
        record = (await store.load_tasks([task]))[task]
        assert (record.status, record.losses, record.retries) == (_S.COMPLETED, int(task in lost), 0)
    assert await one.holds(drained) == 0
    assert [node.id for node in await store.load_nodes() if node.status is NodeStatus.MAINTENANCE] == [drained]
    assert {node.id for node in await store.load_nodes()} == {drained, stays}
    assert await store.task_totals() == await store.count_rows() == {_S.COMPLETED: 560}
    await one.until(lambda: _ledger_is_empty(master))


async def _ledger_is_empty(master: Master) -> bool:
    return master.ledger.held_pairs() == set()


async def test_every_change_of_state_has_its_event_in_order(installation: Installation) -> None:
    one, master = installation, installation.master
    await one.add_agent("node", slots=4)
    later = to_text(SystemClock().now() + 300)
    plain, dated, failing = await one.submit(
        echo(), echo(run_at=later), echo(parameters={"fails": 1}, retry={"base_delay_s": 0.01})
    )
    (child,) = await one.submit(echo(depends_on=[task_text(dated)]))
    (held,) = await one.submit(echo(parameters={"hold": True}))
    await one.until(lambda: one.are(_S.PROCESSING, held))
    await master.task_changes.cancel_tasks([held])
    await one.until(one.is_quiet)
    await master.task_changes.retry_tasks([held])
    one.echo.let_go.set()
    await one.until(one.is_quiet)

    events = await one.events()
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    told = stories(events)
    run = ["assigned", "started", "completed"]
    assert _without_start(told[plain]) == _without_start(["submitted", *run])
    assert _without_start(told[dated]) == _without_start(["submitted", "ready", *run])
    retried = ["submitted", "assigned", "started", "retrying", "ready", *run]
    assert _without_start(told[failing]) == _without_start(retried)
    assert _without_start(told[child]) == _without_start(["submitted", "ready", *run])
    again = ["submitted", "assigned", "started", "recalled", "cancelled", "reopened", *run]
    assert _without_start(told[held]) == _without_start(again)
    assert "started" in told[held]
    kinds = {event.kind for event in events}
    assert {Kind.LEADER_ELECTED, Kind.NODE_REGISTERED, Kind.NODE_ONLINE} <= kinds
    # Read in pages, from any number, it is the same log.
    paged: list[Event] = []
    while page := await one.store.events_after(paged[-1].number if paged else 0, 7):
        paged += page
    assert paged == events


def _without_start(story: list[str]) -> list[str]:
    """What is over before its start was told never counts as started by itself."""
    return [word for word in story if word != "started"]


async def test_a_task_can_say_why_it_is_where_it_is(installation: Installation) -> None:
    one, master = installation, installation.master
    (alone,) = await one.submit(echo())
    assert await one.why(alone) == ("no_node", "no node has joined")
    await one.add_agent("small", slots=2)
    await one.until(lambda: one.are(_S.COMPLETED, alone))
    assert (await one.why(alone))[0] == "final"

    first, second = await one.submit(*[echo(parameters={"hold": True})] * 2)
    await one.until(lambda: one.are(_S.PROCESSING, first, second))
    cause, sentence = await one.why(first)
    assert cause == "processing"
    assert sentence.startswith("runs on node small for ")

    (behind,) = await one.submit(echo())
    assert await one.why(behind) == ("no_node", "0 of 1 node: 1 full")
    await master.store.put_cluster(Cluster("other"), SystemClock().now())
    (elsewhere,) = await one.submit(echo(cluster="other"))
    assert await one.why(elsewhere) == ("no_node", "0 of 1 node: 1 in another cluster")

    later = to_text(SystemClock().now() + 3_600_000)
    dated, child = await one.submit(echo(run_at=later), echo(depends_on=[task_text(first)]))
    assert await one.why(child) == ("parents", f"waits for 1 task to complete: {task_text(first)} (processing)")
    cause, sentence = await one.why(dated)
    assert cause == "time"
    assert sentence.startswith(f"starts at {later}, in ")

    await master.pause.pause_queue("quiet")
    (paused,) = await one.submit(echo(queue="quiet"))
    assert await one.why(paused) == ("queue_paused", "the queue quiet is paused")

    await master.task_changes.cancel_tasks([second])
    await one.until(lambda: one.are(_S.CANCELLED, second))
    assert (await one.why(second))[1].startswith("it was cancelled")

    waits_long = {"base_delay_s": 3_600.0, "max_delay_s": 3_600.0}
    (failing,) = await one.submit(echo(parameters={"fails": 1}, retry=waits_long))
    await one.until(lambda: one.are(_S.RETRYING, failing))
    cause, sentence = await one.why(failing)
    assert cause == "retry"
    assert sentence.startswith("failed once")
    assert "is tried again at " in sentence

    await master.pause.resume_queue("quiet")
    one.echo.let_go.set()
    await one.until(lambda: one.are(_S.COMPLETED, first, behind, child, paused))
    left = await one.store.list_tasks(TaskFilter(), EVERYTHING)
    assert {record.id for record in left if not record.status.is_final} == {elsewhere, dated, failing}
