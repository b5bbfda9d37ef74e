"""Factories for tests of the store: ids, a controlled clock, lanes, tasks, ready nodes, and the usual transitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import msgspec

from crawlfleet.model.event import Event
from crawlfleet.model.execution import End, Failure, Outcome, ParkCause, ParkRequest
from crawlfleet.model.ids import ExecutionId, GroupId, IdFactory, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.queue import Lane
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ErrorClass, NodeStatus, TaskStatus
from crawlfleet.model.task import DecideTransition, LiveTask, RetryPolicy, TaskRecord
from crawlfleet.ports.node_store import NewNode, Renewal, Renewed
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import (
    Accepted,
    Applied,
    Assignment,
    Claim,
    NewGroup,
    NewTask,
    Submission,
    SubmissionAnswer,
)
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store import schema
from crawlfleet.store.store import SqlStore

START: Instant = 1_767_225_600_000
"""The instant 2026-01-01T00:00:00Z."""
PROJECT = "shop"
EVERYTHING = 1_000_000
"""A limit above the number of rows of any test."""

Dump = Mapping[str, Sequence[tuple[Any, ...]]]


class ReadyNode(NamedTuple):
    """A node that is online, with the session it opened."""

    id: NodeId
    session: int


class Run(NamedTuple):
    """An execution on a node."""

    task: TaskId
    execution: ExecutionId
    node: ReadyNode


class Kit:
    """Calls one store. `second` is another connection to the same database, to see what others can see."""

    def __init__(self, store: Store, boot: int, lane: Lane, second: SqlStore | None = None, seed: int = 1) -> None:
        self.store = store
        self.now = START
        self.rng = Random(seed)
        self.lane = lane
        self.ids = IdFactory(boot, lambda: self.now)
        self._second = second
        self._term: int | None = None
        self._lanes = {lane.id: lane}
        self._numbers: dict[NodeId, int] = {}

    @classmethod
    async def open(cls, store: Store, second: SqlStore | None = None, seed: int = 1) -> Kit:
        lane = Lane.with_id("default", PROJECT, 5, Requirement("echo"))
        await store.ensure_lanes([lane])
        return cls(store, await store.register_master("test", START), lane, second, seed)

    @property
    def second(self) -> SqlStore:
        assert self._second is not None, "this kit was opened without a second connection"
        return self._second

    # -- time and leadership

    def later(self, ms: int = 1_000) -> Instant:
        self.now += ms
        return self.now

    async def term(self) -> int:
        """Return the term of a leader, which is elected at the first call."""
        if self._term is None:
            self._term = await self.store.campaign("test", await self.store.read_leader(), self.now)
        assert self._term is not None
        return self._term

    # -- tasks

    async def known_lane(
        self,
        project: str = PROJECT,
        *,
        queue: str = "default",
        priority: int = 5,
        task_type: str = "echo",
        preemptible: bool = False,
    ) -> Lane:
        lane = Lane.with_id(queue, project, priority, Requirement(task_type, preemptible=preemptible))
        await self.store.ensure_lanes([lane])
        self._lanes[lane.id] = lane
        return lane

    def new_task(
        self,
        *,
        lane: Lane | None = None,
        parents: Iterable[TaskId] = (),
        due_at: Instant | None = None,
        retry: RetryPolicy | None = None,
        workflow: str | None = None,
        name: str | None = None,
        timeout_s: int = 60,
        parameters: bytes = b"{}",
        group: GroupId | None = None,
    ) -> NewTask:
        lane = lane or self.lane
        spec = None if retry is None else msgspec.json.encode({"retry": retry})
        return NewTask(
            self.ids.new_id(),
            lane.project,
            workflow,
            name,
            self.now,
            parameters,
            spec,
            lane.id,
            lane.priority,
            timeout_s,
            due_at,
            tuple(parents),
            group,
        )

    async def add(
        self, items: Iterable[NewTask | Refusal], *, is_atomic: bool = False, claim: Claim | None = None
    ) -> SubmissionAnswer:
        added = await self.store.add_tasks([Submission(list(items), is_atomic, claim)], self.now)
        return added.answers[0]

    async def submit(self, count: int = 1, **fields: Any) -> list[TaskId]:
        """Add new tasks and return their ids; all of them are accepted."""
        answer = await self.add(self.new_task(**fields) for _ in range(count))
        return [accepted(item).id for item in answer.items]

    async def group(self, project: str = PROJECT, **fields: Any) -> GroupId:
        """Make a new, empty group."""
        new = NewGroup(self.ids.new_id(), project, **fields)
        added = await self.store.add_tasks([Submission([], group=new)], self.now)
        assert added.answers[0].group == new.id
        return new.id

    async def submit_one(self, **fields: Any) -> TaskId:
        return (await self.submit(**fields))[0]

    async def record(self, task: TaskId) -> TaskRecord:
        return (await self.second.load_tasks([task]))[task]

    async def status(self, task: TaskId) -> TaskStatus:
        return (await self.record(task)).status

    async def live(self, task: TaskId) -> LiveTask:
        return (await self.second.live_tasks([task]))[task]

    # -- nodes

    async def join(self, **fields: Any) -> NodeId:
        """Register a node that has never opened a session."""
        node = self.ids.new_id()
        description = NodeDescription(**{"name": f"node {node}", "slots": 10, **fields})
        return await self.store.register_node(NewNode(node, f"join {node}", "hash", description), self.now)

    async def open_session(self, node: NodeId) -> ReadyNode:
        session, _ = await self.store.open_session(node, 10, ["echo"], self.lose(), self.now)
        self._numbers[node] = 0
        return ReadyNode(node, session)

    async def node(self, **fields: Any) -> ReadyNode:
        """Make a node that is online."""
        return await self.online(await self.join(**fields))

    async def online(self, node: NodeId) -> ReadyNode:
        ready = await self.open_session(node)
        await self.renew(ready)
        return ready

    async def renew(self, node: ReadyNode, measurement: bytes | None = None) -> Renewed:
        number = self._numbers[node.id] = self._numbers[node.id] + 1
        return (await self.store.renew_leases([Renewal(node.id, node.session, number, measurement)], self.now))[0]

    def lose(self) -> DecideTransition:
        return task_state_machine.lose_execution("its node was lost", self.now, self.rng)

    def take_back(self) -> DecideTransition:
        return task_state_machine.return_execution("its node left", self.now, self.rng)

    async def end(self, node: ReadyNode, status: NodeStatus = NodeStatus.UNRESPONSIVE) -> Applied | None:
        return await self.store.end_session(node.id, node.session, status, self.lose(), self.now)

    # -- executions

    async def assignment(self, task: TaskId, node: ReadyNode) -> Assignment:
        return Assignment(task, (await self.live(task)).lane, self.ids.new_id(), node.id, node.session)

    async def assign(self, tasks: Sequence[TaskId], node: ReadyNode) -> list[Run]:
        """Assign pending tasks to a node; all assignments are applied."""
        rows = await self.second.live_tasks(tasks)
        batch = [
            Assignment(task, rows[task].lane, execution, node.id, node.session)
            for task, execution in zip(tasks, self.ids.new_ids(len(tasks)), strict=True)
        ]
        applied = await self.store.assign_tasks(batch, None, self.now)
        assert not applied.refused, applied.refused
        return [Run(item.task, item.execution, node) for item in batch]

    async def run(self, node: ReadyNode, count: int = 1, **fields: Any) -> list[Run]:
        """Add new tasks and assign them to a node."""
        return await self.assign(await self.submit(count, **fields), node)

    async def run_one(self, node: ReadyNode, **fields: Any) -> Run:
        return (await self.run(node, **fields))[0]

    async def start(self, run: Run) -> Applied:
        decide = task_state_machine.start_execution(
            {run.task: task_state_machine.ExecutionStart(run.node.id, run.execution, self.now)}
        )
        return await self.store.change_tasks([run.task], decide, self.now)

    def outcome(self, run: Run, end: End = End.COMPLETED, failure: Failure | None = None) -> Outcome:
        return Outcome(run.node.id, run.task, run.execution, end, failure)

    async def complete(self, *runs: Run) -> Applied:
        return await self.store.complete_executions([self.outcome(run) for run in runs], self.now)

    async def finish(self, run: Run, end: End, failure: Failure | None = None) -> Applied:
        return await self.finish_with(self.outcome(run, end, failure))

    async def finish_with(self, *outcomes: Outcome) -> Applied:
        """Apply outcomes by the slow path: decided on the locked row."""
        by_task = {outcome.task: outcome for outcome in outcomes}
        return await self.store.change_tasks(
            list(by_task), task_state_machine.finish_execution(by_task, self.now, self.rng), self.now
        )

    async def fail(self, run: Run, message: str = "it broke", error: ErrorClass = ErrorClass.INPUT) -> Applied:
        """Fail an execution; the default error class makes the failure final."""
        return await self.finish(run, End.FAILED, Failure(error, message))

    async def park(
        self, run: Run, span_ms: int = 60_000, cause: ParkCause = ParkCause.LATER, subject: str = ""
    ) -> Applied:
        """Hand an execution back because what it needs is away for this span, as a master does it."""
        failure = Failure(ErrorClass.BLOCKED, "not now")
        by_task = {
            run.task: self.outcome(run, End.RETURNED, failure)._replace(park=ParkRequest(span_ms, cause, subject))
        }
        parked = await self.store.parked_times([run.task])
        return await self.store.change_tasks(
            [run.task], task_state_machine.finish_execution(by_task, self.now, self.rng, parked), self.now
        )

    async def cancel(self, *tasks: TaskId) -> Applied:
        return await self.store.change_tasks(tasks, task_state_machine.cancel_task("a person said so"), self.now)

    # -- tasks in a later state

    async def ended_completed(self, **fields: Any) -> TaskId:
        run = await self.run_one(await self.node(), **fields)
        await self.complete(run)
        return run.task

    async def ended_failed(self, message: str = "it broke", **fields: Any) -> TaskId:
        run = await self.run_one(await self.node(), **fields)
        await self.fail(run, message)
        return run.task

    # -- stored rows

    async def events(self) -> list[Event]:
        """Return every event so far, in order."""
        term = await self.term()
        while await self.store.relay_events(term, 1_000):
            pass
        return await self.second.events_after(0, EVERYTHING)

    async def dump(self) -> Dump:
        """Return every row of every table, as another connection sees them."""
        rows_by_table: dict[str, Sequence[tuple[Any, ...]]] = {}
        for name, table in schema.metadata.tables.items():
            columns = ", ".join(column.name for column in table.columns)
            rows = await self.second.engine.read(lambda tx, sql=f"SELECT {columns} FROM {name}": tx.fetch(sql))  # type: ignore[misc]
            rows_by_table[name] = sorted(rows, key=repr)
        return rows_by_table

    @asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """Check that the block leaves every table unchanged."""
        before = await self.dump()
        yield
        after = await self.dump()
        if changed := [name for name, rows in after.items() if rows != before[name]]:
            raise AssertionError("changed: " + "; ".join(f"{name} is {after[name]}" for name in changed))


class KitClock:
    """A clock that shows the kit's time."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def now(self) -> int:
        return self._kit.now

    def monotonic(self) -> float:
        return self._kit.now / 1000


def accepted(item: Accepted | Refusal) -> Accepted:
    assert isinstance(item, Accepted), item
    return item


def refused(item: Accepted | Refusal) -> Refusal:
    assert isinstance(item, Refusal), item
    return item
