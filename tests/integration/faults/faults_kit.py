"""For the fault tests: a master in the hand, nodes that are played, and the judge of what was seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec

from crawlfleet.bootstrap.master import Master, MasterOptions
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.broker.memory.ready import MemoryReadyIndex
from crawlfleet.errors import OutcomeUnknown
from crawlfleet.model.event import Event, Kind
from crawlfleet.model.execution import End, ExecutionRecord
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.model.task import LiveTask, TaskRecord
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted, SubmissionAnswer, TaskFilter
from crawlfleet.store import schema, task_rows
from crawlfleet.store.store import SqlStore
from crawlfleet.wire.sync import AssignmentBody, OpenDown, OpenUp, OutcomeBody, StartBody, SyncDown, SyncUp, SyncVerdict
from crawlfleet.wire.tasks import TaskBody, task_body
from testkit import history as past
from testkit.checker import check
from testkit.clock import FakeClock
from testkit.figure_recount import stored_figures
from testkit.history import FinalState, HeldSlots, History, TaskState

EVERYTHING = 1_000_000
MOST_PASSES = 60
FINAL_KINDS = {
    Kind.TASK_COMPLETED: TaskStatus.COMPLETED,
    Kind.TASK_FAILED: TaskStatus.FAILED,
    Kind.TASK_TIMEOUT: TaskStatus.TIMEOUT,
    Kind.TASK_CANCELLED: TaskStatus.CANCELLED,
}

UpT = TypeVar("UpT", OpenUp, SyncUp)
Dump = Mapping[str, Sequence[tuple[Any, ...]]]


# -- nodes played by hand


class PlayedNode:
    """Speaks the nodes' protocol like an agent; what becomes of its executions the test says."""

    def __init__(self, fleet: Fleet, name: str, slots: int, types: Sequence[str], lease_ms: int) -> None:
        self._fleet = fleet
        self.description = NodeDescription(name, slots=slots, task_types=tuple(types), lease_ms=lease_ms)
        self.id: NodeId = 0
        self.secret = ""
        self.session = 0
        self.newest = 0
        self.number = 0
        self.held: dict[ExecutionId, AssignmentBody] = {}
        self.outcomes: dict[ExecutionId, OutcomeBody] = {}
        self.starts: list[StartBody] = []

    async def join(self, master: Master | None = None) -> None:
        joined = await self._to(master).register.register_node(self.description, f"join {self.description.name}")
        self.id, self.secret = joined.node, joined.secret

    async def open(self, master: Master | None = None) -> OpenDown:
        """Saved outcomes go up with it; what it held is of an older session, and gone."""
        self.drop_held()
        while True:
            down = await self._to(master).open_session.open_session(self.open_up())
            self.newest = down.session
            for execution in down.acknowledged:
                self.outcomes.pop(execution, None)
            if down.is_open:
                self.session, self.number, self.starts = down.session, 0, []
                return down

    async def restart(self) -> OpenDown:
        """Its process died and begins again, with what it had on disk: it does not know its own session any more."""
        self.newest = 0
        return await self.open()

    def open_up(self) -> OpenUp:
        description, outcomes = self.description, list(self.outcomes.values())
        types = list(description.task_types)
        return _over_the_wire(OpenUp(self.id, self.secret, outcomes, description.slots, types, after=self.newest))

    def next_up(self, **fields: Any) -> SyncUp:
        """What it would say now. Whoever sends it by hand plays the network."""
        self.number += 1
        said = {"started": self.starts, "outcomes": list(self.outcomes.values()), "wait_ms": 0}
        said |= {"held": list(self.held)}
        up = SyncUp(**{"node": self.id, "session": self.session, "number": self.number, **said, **fields})
        return _over_the_wire(up)

    async def sync(self, master: Master | None = None, *, is_answer_lost: bool = False) -> SyncDown:
        down = await self._to(master).sync.sync(self.next_up())
        if not is_answer_lost:
            self.take(down)
        return down

    def take(self, down: SyncDown) -> None:
        history = self._fleet.history
        for execution in down.acknowledged:
            self.outcomes.pop(execution, None)
        if down.verdict is SyncVerdict.OK:
            self.starts = []
        if down.verdict in (SyncVerdict.SESSION_ENDED, SyncVerdict.REMOVED):
            self.drop_held()
        for one in down.assignments:
            if one.execution not in self.held and one.execution not in self.outcomes:
                self.held[one.execution] = one
                history.add(past.Started(history.now, one.task, one.execution, self.id))
        for execution in down.stops:
            self._let_go(execution)
        for recall in down.recalls:
            if recall.execution in self.held:
                self.end(recall.execution, End.STOPPED)
            elif recall.execution not in self.outcomes:
                self.outcomes[recall.execution] = OutcomeBody(recall.task, recall.execution, int(End.STOPPED))

    def start(self, execution: ExecutionId, ms_ago: int = 0) -> None:
        self.starts.append(StartBody(self.held[execution].task, execution, ms_ago))

    def end(
        self, execution: ExecutionId, end: End = End.COMPLETED, error: ErrorClass | None = None, **said: Any
    ) -> None:
        """Nothing of it runs any more; the master hears of it at the next sync."""
        one = self.held[execution]
        message = "" if error is None else "it broke"
        self._let_go(execution)
        self.outcomes[execution] = OutcomeBody(one.task, execution, int(end), int(error or 0), message, **said)

    def end_all(self, end: End = End.COMPLETED) -> None:
        for execution in list(self.held):
            self.end(execution, end)

    def drop_held(self) -> None:
        for execution in list(self.held):
            self._let_go(execution)

    def _let_go(self, execution: ExecutionId) -> None:
        one = self.held.pop(execution, None)
        if one is not None:
            history = self._fleet.history
            history.add(past.Ended(history.now, one.task, execution, self.id))

    def _to(self, master: Master | None) -> Master:
        return master or self._fleet.master


def _over_the_wire(up: UpT) -> UpT:
    return msgspec.json.decode(msgspec.json.encode(up), type=type(up))


# -- the whole


def echo(**fields: Any) -> TaskBody:
    body = task_body({"task_type": "echo", **fields})
    assert isinstance(body, TaskBody), body
    return body


class Fleet:
    """A store, a clock in the hand, the master of the moment, its nodes, and what was seen from outside."""

    def __init__(self, store: SqlStore, *, window: int = 2_000, options: MasterOptions | None = None) -> None:
        self.store = store
        """The way past all faults, for looking."""
        self.clock = FakeClock()
        self.nodes: list[PlayedNode] = []
        self._window = window
        self._options = options
        steps = itertools.count(1)
        self.history = History(lambda: next(steps))

    async def begun(self) -> Fleet:
        await self.start()
        return self

    async def start(self, store: Store | None = None, broker: Broker | None = None, *, leads: bool = True) -> Master:
        """A new master, in the place of the last one, of which nothing is left."""
        store, broker = store or self.store, broker or self.new_broker()
        boot = await self.store.register_master("master", self.clock.now())
        self.master = Master(
            name="master",
            boot=boot,
            store=store,
            broker=broker,
            clock=self.clock,
            rng=Random(boot),
            schemas={"echo": {}},
            window=self._window,
            options=self._options,
        )
        if leads:
            await self.lead()
        return self.master

    def new_broker(self) -> MemoryBroker:
        broker = MemoryBroker()
        # What it remembers for some seconds it forgets by the clock in the hand.
        broker.ready_index = MemoryReadyIndex(self._window, 100 * self._window, self.clock.monotonic)
        return broker

    async def lead(self, master: Master | None = None) -> int:
        """Until it leads, with whatever patience that takes."""
        master = master or self.master
        while master.lead.term is None:
            self.clock.advance(1.6)
            try:
                await master.leader.run_once(self.clock.now())
            except OutcomeUnknown:
                continue
        return master.lead.term

    async def node(
        self, name: str = "", slots: int = 10, types: Sequence[str] = ("echo",), lease_ms: int = 9_000
    ) -> PlayedNode:
        """A node that is online."""
        node = PlayedNode(self, name or f"node {len(self.nodes) + 1}", slots, types, lease_ms)
        await node.join()
        await node.open()
        await node.sync()
        self.nodes.append(node)
        return node

    async def submit(self, *bodies: TaskBody | Refusal, batch: str = "", **how: Any) -> SubmissionAnswer:
        """Noted as somebody outside sees it: sent, and answered if it was."""
        history, batch = self.history, batch or f"batch {self.history.now}"
        named = [
            msgspec.structs.replace(body, workflow_id=batch) if isinstance(body, TaskBody) else body for body in bodies
        ]
        history.add(past.SubmitSent(history.now, batch, len(bodies)))
        answer = await self.master.submit.submit_tasks(named, **how)
        if accepted := accepted_ids(answer):
            history.add(past.SubmitAnswered(history.now, batch, tuple(accepted)))
        else:
            history.add(past.SubmitRefused(history.now, batch))
        return answer

    async def tasks(self, count: int = 1, **fields: Any) -> list[TaskId]:
        """Tasks that were accepted."""
        return accepted_ids(await self.submit(*[echo(**fields)] * count))

    async def dispatch(self) -> None:
        """The leader's turn: pass after pass, until one leaves nothing to do."""
        self.clock.advance(1.1)
        while await self.master.dispatcher.run_once(self.clock.now()):
            pass

    async def held_by(self, node: PlayedNode) -> list[LiveTask]:
        return (await self.store.held_tasks([node.id]))[node.id]

    async def record(self, task: TaskId) -> TaskRecord:
        return (await self.store.load_tasks([task]))[task]

    async def status(self, task: TaskId) -> TaskStatus:
        return (await self.record(task)).status

    async def settle(self, nodes: Iterable[PlayedNode] | None = None) -> None:
        """Stage, dispatch, run everything to its end, until nothing is left to do."""
        playing = list(self.nodes if nodes is None else nodes)
        for _ in range(MOST_PASSES):
            self.clock.advance(10.0)
            await self.master.stager.run_once(self.clock.now())
            await self.dispatch()
            for node in playing:
                if (await node.sync()).verdict is SyncVerdict.SESSION_ENDED:
                    await node.open()
                node.end_all()
                await node.sync()
            if not any(count for status, count in (await self.store.task_totals()).items() if not status.is_final):
                return
        raise AssertionError(f"not quiet after {MOST_PASSES} passes: {await self.store.task_totals()}")

    async def events(self) -> list[Event]:
        """Every event so far, in order; the leader of the moment numbers them."""
        term = (await self.store.read_leader()).term
        while await self.store.relay_events(term, 1_000):
            pass
        return await self.store.events_after(0, EVERYTHING)

    async def judge(self) -> None:
        """What must hold after every fault, by the history and by what the store says."""
        self._learn(await self.events())
        violations = check(self.history, await self._final_state())
        assert not violations, "\n".join(map(str, violations))

    def _learn(self, events: Sequence[Event]) -> None:
        history, rounds = self.history, dict[TaskId, int]()
        for event in events:
            data = event.data
            if event.kind == Kind.TASK_ASSIGNED:
                task, round_ = data["task"], rounds.get(data["task"], 1)
                history.add(past.Assigned(history.now, task, round_, data["execution"], data["node"], 0))
            elif event.kind == Kind.TASK_REOPENED:
                rounds[data["task"]] = data["round"]
            elif status := FINAL_KINDS.get(Kind(event.kind)):
                task, round_ = data["task"], rounds.get(data["task"], 1)
                history.add(past.OutcomeAccepted(history.now, task, round_, data.get("execution") or 0, status))

    async def _final_state(self) -> FinalState:
        store = self.store
        records = await store.list_tasks(TaskFilter(), EVERYTHING)
        letters = {letter.task for letter in await store.dead_letters(EVERYTHING)}
        batches: dict[str, list[TaskId]] = {}
        states = {}
        for record in records:
            spec = msgspec.json.decode(record.spec) if record.spec else {}
            why = None if record.status.is_final else (await self.master.why.explain_task(record.id)).sentence
            states[record.id] = TaskState(
                record.status,
                record.round,
                record.retries,
                record.losses,
                record.deaths,
                spec.get("retry", {}).get("max_retries", 3),
                record.id in letters,
                why,
            )
            batches.setdefault(record.workflow or "", []).append(record.id)
        held = await store.held_tasks([node.id for node in self.nodes])
        return FinalState(
            at=self.history.now,
            tasks=states,
            batches=batches,
            executions=await self.executions(),
            counters=await store.task_totals(),
            rows=await store.count_rows(),
            figures=await stored_figures(store),
            slots={node.id: HeldSlots(len(held[node.id]), len(node.held)) for node in self.nodes},
        )

    async def executions(self) -> list[ExecutionRecord]:
        """Every execution that is over."""
        sql = task_rows.all_ended_executions()
        return [task_rows.execution_from_row(row) for row in await self.store.engine.read(lambda tx: tx.fetch(sql))]

    async def dump(self) -> Dump:
        """Every row of every table."""
        found: dict[str, Sequence[tuple[Any, ...]]] = {}
        for name in schema.metadata.tables:
            rows = await self.store.engine.read(lambda tx, sql=f"SELECT * FROM {name}": tx.fetch(sql))  # type: ignore[misc]
            found[name] = sorted(rows, key=repr)
        return found


def accepted_ids(answer: SubmissionAnswer) -> list[TaskId]:
    return [item.id for item in answer.items if isinstance(item, Accepted)]


def refusals(answer: SubmissionAnswer) -> list[Refusal]:
    return [item for item in answer.items if isinstance(item, Refusal)]
