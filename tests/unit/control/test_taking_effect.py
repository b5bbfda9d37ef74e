"""What people change takes effect at once, or with the next sync: a paused queue, a node that comes, configuration."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from crawlfleet.bootstrap.master import Master, MasterOptions
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.nodes.sync import DELIVERY_BYTES
from crawlfleet.model.execution import End
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.installation.retention import Retention
from crawlfleet.model.node import Cluster, NodeDescription
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.broker import node_topic
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Accepted, Applied
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.wire.sync import AssignmentBody, NodeConfigBody, OpenUp, OutcomeBody, SyncDown, SyncUp
from crawlfleet.wire.tasks import TaskBody, task_body
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit


class Played:
    """A node that says what the test makes it say."""

    def __init__(self, master: Master, node: NodeId, secret: str, slots: int) -> None:
        self.id = node
        self.config_version = self.config_mark = 0
        self._master = master
        self._secret = secret
        self._slots = slots
        self._number = 0
        self._session = 0

    async def open(self) -> int:
        """Its first session; how often it is to sync."""
        down = await self._master.open_session.open_session(OpenUp(self.id, self._secret, [], self._slots, ["echo"]))
        self._session = down.session
        return down.sync_ms

    def moves_to(self, master: Master) -> None:
        self._master = master

    async def sync(
        self, *outcomes: OutcomeBody, held: Sequence[int] = (), is_departing: bool = False, wait_ms: int = 0
    ) -> SyncDown:
        self._number += 1
        up = SyncUp(
            self.id,
            self._session,
            self._number,
            wait_ms,
            list(held),
            outcomes=list(outcomes),
            slots=self._slots,
            config_version=self.config_version,
            config_mark=self.config_mark,
            is_draining=is_departing,
            is_departing=is_departing,
        )
        return await self._master.sync.sync(up)


class Held:
    """A store whose assignments wait until they are let go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_asked, self.let_go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def assign_tasks(self, *args: Any) -> Applied:
        self.is_asked.set()
        await self.let_go.wait()
        return await self._store.assign_tasks(*args)


class Installation:
    def __init__(self, master: Master, clock: FakeClock) -> None:
        self.master = master
        self.store = master.store
        self.clock = clock

    async def node(self, name: str = "n", slots: int = 10, cluster: str = "default") -> Played:
        """Known, with a session; it has not synced yet."""
        said = NodeDescription(name, slots=slots, task_types=("echo",), cluster=cluster)
        joined = await self.master.register.register_node(said, f"join {name}")
        node = Played(self.master, joined.node, joined.secret, slots)
        await node.open()
        return node

    async def online(self, *args: Any, **fields: Any) -> Played:
        node = await self.node(*args, **fields)
        await node.sync()
        return node

    async def submit(self, count: int = 1, **fields: Any) -> list[TaskId]:
        body = task_body({"task_type": "echo", **fields})
        assert isinstance(body, TaskBody), body
        answer = await self.master.submit.submit_tasks([body] * count)
        return [item.id for item in answer.items if isinstance(item, Accepted)]

    async def dispatch(self) -> int:
        """One pass of the leader; how many tasks it has placed."""
        assert self.master.lead.term is not None
        return (await self.master.dispatcher.run_term(self.master.lead.term, self.clock.now())).placed

    async def holds(self, *nodes: Played) -> list[int]:
        held = await self.store.held_tasks([node.id for node in nodes])
        return [len(held[node.id]) for node in nodes]

    async def configure(self, cluster: str = "default", **values: Any) -> None:
        await self.master.configure.put_config(cluster, values, by="ann")


async def begin(kit: Kit, store: Any = None, **more: Any) -> Installation:
    clock = FakeClock(kit.now)
    master = await Master.start("m", store or kit.store, MemoryBroker(), {"echo": {}}, clock=clock, **more)
    await master.leader.run_once(clock.now())
    return Installation(master, clock)


def returned(assignment: AssignmentBody) -> OutcomeBody:
    return OutcomeBody(assignment.task, assignment.execution, End.RETURNED)


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        await kit.store.put_cluster(Cluster("eu"), kit.now)
        yield kit


@pytest.fixture
async def one(kit: Kit) -> Installation:
    return await begin(kit)


# -- nodes that leave


async def test_what_a_leaving_node_hands_back_goes_to_another_node_and_never_to_it(one: Installation) -> None:
    leaving = await one.online("leaving")
    (task,) = await one.submit()
    assert await one.dispatch() == 1
    (assignment,) = (await leaving.sync()).assignments
    await leaving.sync(returned(assignment), is_departing=True)
    assert await one.dispatch() == 0
    one.clock.advance(seconds=10)
    assert await one.dispatch() == 0
    assert (await one.master.why.explain_task(task)).sentence == "0 of 1 node: 1 leaving"
    other = await one.online("other")
    assert await one.dispatch() == 1
    assert await one.holds(leaving, other) == [0, 1]


async def test_a_leaving_node_is_not_ordered_to_stop_what_it_runs(one: Installation) -> None:
    node = await one.online()
    await one.submit()
    await one.dispatch()
    (assignment,) = (await node.sync()).assignments
    down = await node.sync(held=[assignment.execution], is_departing=True)
    assert (down.drain_ms, down.stops, down.recalls) == (None, [], [])
    # A signal that comes before its wait is kept: the call is parked, and woken.
    await one.master.broker.signals.send_signals([node_topic(node.id)])
    down = await node.sync(held=[assignment.execution], is_departing=True, wait_ms=2_000)
    assert (down.drain_ms, down.stops, down.recalls) == (None, [], [])
    await one.master.node_changes.drain_node(node.id, 60)
    assert (await node.sync(held=[assignment.execution], is_departing=True)).drain_ms == 60_000


async def test_a_task_that_was_handed_back_is_not_placed_on_the_same_session_at_once(one: Installation) -> None:
    """Whatever the reason of the node: without a pause the two would hand it to and fro as fast as they can."""
    node = await one.online()
    (task,) = await one.submit()
    assert await one.dispatch() == 1
    (assignment,) = (await node.sync()).assignments
    await node.sync(returned(assignment))
    assert [await one.dispatch() for _ in range(10)] == [0] * 10
    one.clock.advance(seconds=1.1)
    assert await one.dispatch() == 1
    (again,) = (await node.sync()).assignments
    assert (again.task, len(await one.store.task_executions(task))) == (task, 2)


async def test_a_task_that_was_handed_back_goes_to_another_node_at_once(one: Installation) -> None:
    nodes = [await one.online("a"), await one.online("b")]
    await one.submit()
    assert await one.dispatch() == 1
    first = nodes[(await one.holds(*nodes)).index(1)]
    (assignment,) = (await first.sync()).assignments
    await first.sync(returned(assignment))
    assert await one.dispatch() == 1
    assert await one.holds(first) == [0]


async def test_more_than_an_answer_holds_is_delivered_with_the_next_ones(one: Installation) -> None:
    node = await one.online(slots=40)
    parameters = {"text": "x" * 1_000_000}
    await one.submit(40, parameters=parameters)
    assert await one.dispatch() == 40
    answers: list[list[int]] = []
    while len(held := [execution for answer in answers for execution in answer]) < 40:
        down = await node.sync(held=held)
        assert 0 < sum(len(each.parameters) for each in down.assignments) <= DELIVERY_BYTES
        answers.append([each.execution for each in down.assignments])
    assert [len(answer) for answer in answers] == [16, 16, 8]
    assert len(set(held)) == 40


# -- queues


async def test_nothing_of_a_paused_queue_is_placed_once_that_was_answered(one: Installation) -> None:
    node = await one.online()
    await one.submit()
    assert await one.dispatch() == 1
    await one.submit(3, queue="slow")
    await one.master.pause.pause_queue("slow")
    assert await one.dispatch() == 0
    await one.master.pause.resume_queue("slow")
    assert await one.dispatch() == 3
    assert await one.holds(node) == [4]


async def test_a_pause_is_answered_when_what_was_chosen_before_is_assigned(kit: Kit) -> None:
    held = Held(kit.store)
    one = await begin(kit, cast("Store", held))
    await one.online()
    await one.submit(3, queue="slow")
    placing = asyncio.create_task(one.dispatch())
    await held.is_asked.wait()
    pausing = asyncio.create_task(one.master.pause.pause_queue("slow"))
    while "slow" not in await kit.store.paused_queues():  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert not pausing.done()
    held.let_go.set()
    assert (await placing, await pausing) == (3, True)
    await one.submit(3, queue="slow")
    assert await one.dispatch() == 0


async def test_a_look_that_failed_is_made_good_by_the_next_pass(kit: Kit) -> None:
    one = await begin(kit)
    await one.online()
    await one.dispatch()
    await one.submit(1, queue="slow")
    await one.master.pause.pause_queue("slow")
    is_away = True
    view = kit.store.placement_view

    async def placement_view() -> Any:
        if is_away:
            raise TimeoutError
        return await view()

    one.store.placement_view = placement_view  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await one.dispatch()
    is_away = False
    assert await one.dispatch() == 0


# -- nodes


async def test_a_node_that_comes_online_is_given_work_at_once(one: Installation) -> None:
    await one.submit(3)
    assert await one.dispatch() == 0
    node = await one.node()
    assert await one.dispatch() == 0
    await node.sync()
    assert await one.dispatch() == 3


async def test_a_node_that_is_ready_again_is_given_work_at_once(one: Installation) -> None:
    node = await one.online()
    await one.dispatch()
    await one.master.node_changes.drain_node(node.id)
    await one.submit(3)
    assert await one.dispatch() == 0
    await one.master.node_changes.make_ready(node.id)
    assert await one.dispatch() == 3


# -- slots


async def test_a_cluster_s_slots_go_to_its_nodes_and_bound_what_they_are_given(one: Installation) -> None:
    node, other = await one.online("a", 10, "eu"), await one.online("b", 1)
    await one.configure("eu", slots=2)
    assert ((await node.sync()).slots, (await other.sync()).slots) == (2, None)
    await one.submit(9)
    one.clock.advance(1)
    await one.dispatch()
    assert await one.holds(node, other) == [2, 1]
    await one.configure("eu")
    assert (await node.sync()).slots is None
    one.clock.advance(1)
    assert await one.dispatch() == 6


async def test_what_a_person_wants_of_a_node_wins_over_its_cluster(one: Installation) -> None:
    node = await one.online("a", 10, "eu")
    await one.configure("eu", slots=2)
    await one.master.node_changes.set_slots(node.id, 5)
    assert (await node.sync()).slots == 5
    await one.submit(9)
    assert await one.dispatch() == 5


# -- what nodes are told


async def test_a_node_hears_of_a_newer_configuration_once(one: Installation) -> None:
    node = await one.online("a", 10, "eu")
    assert (await node.sync()).config is None
    await one.configure("eu", allow_hosts=["shop.local"], sync_interval_s=1)
    told = (await node.sync()).config
    assert told == NodeConfigBody(1, ["shop.local"], 1_000)
    assert (await node.sync()).config == told, "the answer may have been lost"
    node.config_version = 1
    assert (await node.sync()).config is None
    await one.configure("eu")
    assert (await node.sync()).config == NodeConfigBody(2, [], 3_000)


async def test_a_master_that_knows_less_than_the_node_says_nothing(one: Installation, kit: Kit) -> None:
    node = await one.online("a", 10, "eu")
    await one.configure("eu", allow_hosts=["old.local"])
    await node.sync()
    await kit.store.put_config("eu", {"allow_hosts": ["new.local"]}, "bob", kit.now)
    node.config_version = 2
    assert (await node.sync()).config is None
    node.config_version = 1
    one.clock.advance(1)
    told = (await node.sync()).config
    assert told is not None
    assert (told.version, told.allow_hosts) == (2, ["new.local"])


async def test_a_node_hears_what_its_master_s_own_settings_allow(kit: Kit) -> None:
    one = await begin(kit, options=MasterOptions(clusters={"allow_hosts": ["shop.local"]}))
    node = await one.online("a", 10, "eu")
    told = (await node.sync()).config
    assert told is not None
    assert (told.version, told.allow_hosts) == (0, ["shop.local"])
    node.config_mark = told.mark
    assert (await node.sync()).config is None
    await one.configure("eu", allow_hosts=["other.local"])
    told = (await node.sync()).config
    assert told is not None
    assert (told.version, told.allow_hosts) == (1, ["other.local"])


async def test_a_node_hears_of_settings_that_changed_with_a_restart(kit: Kit) -> None:
    one = await begin(kit, options=MasterOptions(clusters={"allow_hosts": ["shop.local"]}))
    node = await one.online("a", 10, "eu")
    told = (await node.sync()).config
    assert told is not None
    node.config_mark = told.mark
    node.moves_to((await begin(kit)).master)
    assert (await node.sync()).config == NodeConfigBody(0, [], 3_000, 0)
    node.config_mark = 0
    assert (await node.sync()).config is None


async def test_the_store_is_not_asked_for_configuration_with_every_sync_and_task(one: Installation) -> None:
    node = await one.online()
    calls: Counter[str] = Counter()
    for name in ("cluster_configs", "load_nodes"):
        _count(one.store, name, calls)
    for _ in range(20):
        await node.sync()
        await one.submit()
    assert calls == {}
    one.clock.advance(1)
    await asyncio.gather(*(one.submit() for _ in range(20)))
    await node.sync()
    assert calls == {"cluster_configs": 1}


def _count(store: Any, name: str, calls: Counter[str]) -> None:
    method = getattr(store, name)

    async def counted(*args: Any) -> Any:
        calls[name] += 1
        return await method(*args)

    setattr(store, name, counted)


# -- strategy and what tasks do not say


async def test_the_strategy_of_a_cluster_and_of_the_default(kit: Kit) -> None:
    one = await begin(kit, options=MasterOptions(clusters={"strategy": "least_tasks"}))
    small, large = await one.online("a", 10, "eu"), await one.online("b", 30, "eu")
    await one.submit(10, cluster="eu")
    await one.dispatch()
    assert await one.holds(small, large) == [5, 5]
    await one.configure("eu", strategy="largest")
    one.clock.advance(1)
    # By room: what the default says is not asked any more.
    placed = _strategies(one)
    await one.submit(10, cluster="eu")
    await one.submit(10)
    await one.dispatch()
    assert placed == {"eu": "largest", None: None}
    assert one.master.dispatcher.view.default_strategy == "least_tasks"
    await one.configure("default", strategy="round_robin")
    one.clock.advance(1)
    await one.dispatch()
    assert one.master.dispatcher.view.default_strategy == "round_robin"


def _strategies(one: Installation) -> dict[str | None, str | None]:
    """What is asked of the placer, by cluster."""
    seen: dict[str | None, str | None] = {}
    asked = one.master.dispatcher.view.with_strategy

    def noted(requirement: Any) -> Any:
        wanted = asked(requirement)
        seen[wanted.cluster] = wanted.strategy
        return wanted

    one.master.dispatcher.view.with_strategy = noted  # type: ignore[method-assign]
    return seen


async def test_what_a_task_does_not_say_holds_to_its_end(kit: Kit) -> None:
    one = await begin(kit, options=MasterOptions(clusters={"max_retries": 0, "task_timeout_s": 77}))
    node = await one.online()
    (task,) = await one.submit()
    await one.dispatch()
    (given,) = (await node.sync()).assignments
    assert given.timeout_s == 77
    await node.sync(OutcomeBody(task, given.execution, int(End.FAILED), 1, "broken"), held=[])
    record = (await one.store.load_tasks([task]))[task]
    assert (record.status, record.retries) == (TaskStatus.FAILED, 0)


# -- retention


async def believe_the_clock(one: Installation) -> None:
    term = one.master.lead.term
    assert term is not None
    await one.store.set_clock_mark(term, one.clock.now())
    await one.master.pruner.run_term(term, one.clock.now())


async def test_chunks_go_with_their_tasks(kit: Kit, tmp_path: Path) -> None:
    chunks = FolderChunks(tmp_path / "results")
    one = await begin(kit, options=MasterOptions(retention=Retention(tasks_ms=1_000)), chunks=chunks)
    await believe_the_clock(one)
    old, young = await one.submit(), await one.submit()
    for task in (*old, *young):
        await chunks.put(task, 7, "items", 0, b"{}\n")
    await one.master.task_changes.cancel_tasks(old)
    one.clock.advance(3_600)
    assert one.master.lead.term is not None
    await one.master.pruner.run_term(one.master.lead.term, one.clock.now())
    assert [await chunks.count(task, 7, "items") for task in (*old, *young)] == [0, 1]
    assert list(await one.store.load_tasks([*old, *young])) == young


async def test_chunks_that_could_not_be_dropped_go_with_the_next_pass(kit: Kit, tmp_path: Path) -> None:
    class Stubborn(FolderChunks):
        refusals = 1

        async def drop(self, tasks: Sequence[TaskId]) -> None:
            if self.refusals:
                self.refusals -= 1
                raise OSError("busy")
            await super().drop(tasks)

    chunks = Stubborn(tmp_path / "results")
    one = await begin(kit, options=MasterOptions(retention=Retention(tasks_ms=1_000)), chunks=chunks)
    await believe_the_clock(one)
    tasks = await one.submit()
    await chunks.put(tasks[0], 7, "log", 0, b"{}\n")
    await one.master.task_changes.cancel_tasks(tasks)
    one.clock.advance(3_600)
    term = one.master.lead.term
    assert term is not None
    with pytest.raises(OSError, match="busy"):
        await one.master.pruner.run_term(term, one.clock.now())
    await one.master.pruner.run_term(term, one.clock.now())
    assert await chunks.count(tasks[0], 7, "log") == 0
