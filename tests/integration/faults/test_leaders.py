"""Two masters that both believe they lead: whatever the older one writes is refused whole, and it steps down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from unittest.mock import patch

import pytest

from crawlfleet.bootstrap.master import Master
from crawlfleet.control.loops.base import LeaderLoop, Loop
from crawlfleet.control.loops.dispatcher import DispatchReport
from crawlfleet.control.loops.leader import SILENCE_S
from crawlfleet.control.loops.pruner import Pruner
from crawlfleet.errors import NotLeader, StoreUnavailable
from crawlfleet.model.execution import End
from crawlfleet.model.host_stats import Batch, empty_row
from crawlfleet.model.installation.retention import Retention
from crawlfleet.model.product import Product
from crawlfleet.model.status import ErrorClass, Health, TaskStatus
from crawlfleet.ports.composite_store import ProductBatch
from crawlfleet.ports.node_store import HealthChange
from crawlfleet.wire.sync import HostWantBody, MeasurementBody
from testkit.patience import PATIENCE_S
from tests.integration.faults.faults_kit import Fleet
from tests.integration.faults.faults_schedules import new_schedule
from tests.integration.faults.faults_stores import Stores, store_between

pytestmark = pytest.mark.integration

Arrange = Callable[[Fleet], Coroutine[Any, Any, None]]


class Pair:
    """Over one store and one broker, as they share a server: the older led first, the newer leads now."""

    def __init__(self, fleet: Fleet, older: Master, newer: Master) -> None:
        self.fleet, self.older, self.newer = fleet, older, newer
        self.old_term = older.lead.term

    @classmethod
    async def begin(cls, stores: Stores, arrange: Arrange | None = None) -> Pair:
        """What is arranged happens while the older still leads."""
        fleet = Fleet(await stores.fresh())
        broker = fleet.new_broker()
        older = await fleet.start(broker=broker)
        if arrange is not None:
            await arrange(fleet)
        # On PostgreSQL the two have connections of their own; a SQLite file has but one owner.
        newer = await fleet.start(fleet.store if stores.is_quick else await stores.another(), broker, leads=False)
        pair = cls(fleet, older, newer)
        term = await fleet.store.campaign(newer.name, await fleet.store.read_leader(), fleet.clock.now())
        assert term is not None
        newer.lead.start_term(term)
        return pair


async def waiting_tasks(fleet: Fleet) -> None:
    await fleet.node()
    await fleet.dispatch()
    await fleet.tasks(5)


async def a_silent_node(fleet: Fleet) -> None:
    await fleet.node()
    await fleet.tasks(3)
    await fleet.dispatch()
    await _reap_until_due(fleet)


async def an_overdue_task(fleet: Fleet) -> None:
    node = await fleet.node(lease_ms=3_600_000)
    await fleet.tasks(1, timeout_s=1)
    await fleet.dispatch()
    await node.sync()
    node.start(next(iter(node.held)))
    await node.sync()
    await _reap_until_due(fleet, 4)


async def _reap_until_due(fleet: Fleet, passes: int = 3) -> None:
    """The leader has watched for so long that its next pass ends something."""
    for _ in range(passes):
        await fleet.master.reaper.run_once(fleet.clock.now())
        fleet.clock.advance(3.1)


async def a_due_retry(fleet: Fleet) -> None:
    node = await fleet.node()
    await fleet.tasks(2)
    await fleet.dispatch()
    await node.sync()
    for execution in list(node.held):
        node.end(execution, End.FAILED, ErrorClass.NETWORK)
    await node.sync()
    fleet.clock.advance(60)


async def an_ill_node(fleet: Fleet) -> None:
    node = await fleet.node()
    ill = MeasurementBody(memory=0.99, cpu=1.0, disk=0.99)
    for _ in range(30):
        await fleet.master.sync.sync(node.next_up(measurement=ill))
        await fleet.master.node_watcher.run_once(fleet.clock.now())
        fleet.clock.advance(2)
        if (await fleet.store.load_nodes([node.id]))[0].health is not Health.UNKNOWN:
            break
    await fleet.master.sync.sync(node.next_up(measurement=MeasurementBody()))
    fleet.clock.advance(120)


async def a_full_disk(fleet: Fleet) -> None:
    node = await fleet.node()
    await fleet.master.sync.sync(node.next_up(measurement=MeasurementBody(disk=0.99)))


async def old_tasks(fleet: Fleet) -> None:
    await fleet.node()
    await fleet.tasks(3)
    await fleet.settle()
    fleet.master.pruner = Pruner(
        store=fleet.store, clock=fleet.clock, leadership=fleet.master.lead, retention=Retention(tasks_ms=1_000)
    )
    await _believe_the_clock(fleet)
    fleet.clock.advance(3_600)


async def gone_products(fleet: Fleet) -> None:
    node = await fleet.node()
    await fleet.tasks(1)
    await fleet.dispatch()
    (held,) = await fleet.held_by(node)
    product = Product("shop.example", "1", "https://shop.example/1", "Kettle")
    for seen in (product, product._replace(is_gone=True)):
        assert await fleet.store.put_products(ProductBatch(node.id, held.id, held.execution, [seen]), fleet.clock.now())
    fleet.master.pruner = Pruner(
        store=fleet.store, clock=fleet.clock, leadership=fleet.master.lead, retention=Retention(gone_products_ms=1_000)
    )
    await _believe_the_clock(fleet)
    fleet.clock.advance(3_600)


async def _believe_the_clock(fleet: Fleet) -> None:
    term = fleet.master.lead.term
    assert term is not None
    await fleet.store.set_clock_mark(term, fleet.clock.now())
    await fleet.master.pruner.run_term(term, fleet.clock.now())


async def due_schedules(fleet: Fleet) -> None:
    for _ in range(3):
        await new_schedule(fleet)
    fleet.clock.advance(60)


async def a_node_without_room(fleet: Fleet) -> None:
    await fleet.node(slots=1)
    await fleet.tasks(1, priority=1, preemptible=True)
    await fleet.dispatch()
    await fleet.tasks(1, priority=10)
    await fleet.dispatch()
    await fleet.master.preempter.run_once(fleet.clock.now())
    fleet.clock.advance(2)


async def an_overloaded_node(fleet: Fleet) -> None:
    await fleet.master.configure.put_config("default", {"concurrency": "auto"}, "somebody")
    node = await fleet.node(lease_ms=3_600_000)
    await fleet.master.sync.sync(node.next_up(measurement=MeasurementBody(memory=0.99)))
    await fleet.master.scaler.run_once(fleet.clock.now())
    fleet.clock.advance(60)


async def a_wanted_host(fleet: Fleet) -> None:
    node = await fleet.node()
    await fleet.master.sync.sync(node.next_up(hosts=[HostWantBody("shop.example", 4)]))


async def a_counted_host(fleet: Fleet) -> None:
    node = await fleet.node()
    await fleet.store.add_figures([Batch(node.id, node.session, 1, [("shop.example", empty_row())])], fleet.clock.now())


async def something_to_learn(fleet: Fleet) -> None:
    await fleet.node()
    await fleet.tasks(2, content_features={"technology": "vue"})
    await fleet.settle()
    await fleet.master.relay.run_once(fleet.clock.now())


async def a_node_that_keeps_failing(fleet: Fleet) -> None:
    node, _ = await fleet.node(), await fleet.node()
    await fleet.tasks(10)
    await fleet.dispatch()
    await node.sync()
    details = {"reasons": [{"rule": "crash_rate"}]}
    change = HealthChange(node.id, Health.UNKNOWN, Health.UNHEALTHY, details)
    await fleet.store.set_health([change], await fleet.lead(), fleet.clock.now())


WRITERS: dict[str, Arrange] = {
    "dispatcher": waiting_tasks,
    "reaper": a_silent_node,
    "reaper, deadline": an_overdue_task,
    "stager": a_due_retry,
    "relay": waiting_tasks,
    "tallier": waiting_tasks,
    "figure_tallier": a_counted_host,
    "node_watcher": an_ill_node,
    "pruner": old_tasks,
    "pruner, products": gone_products,
    "firer": due_schedules,
    "preempter": a_node_without_room,
    "scaler": an_overloaded_node,
    "granter": a_wanted_host,
    "learner": something_to_learn,
    "work_mover": a_node_that_keeps_failing,
    "alert_evaluator": a_full_disk,
    "gauge_sampler": waiting_tasks,
}


async def one_pass_of_its_own(loop: Loop) -> None:
    has_passed = asyncio.Event()

    async def rest(_pause_s: float) -> None:
        has_passed.set()
        await asyncio.get_running_loop().create_future()

    with patch.object(loop, "wait", rest):
        running = asyncio.create_task(loop.run())
        await asyncio.wait_for(has_passed.wait(), PATIENCE_S)
        running.cancel()


def loop_of(master: Master, name: str) -> Loop:
    if name == "alert_evaluator":
        return master.alert_parts.evaluator
    found: Loop = getattr(master, name.partition(",")[0])
    return found


@pytest.mark.parametrize("name", WRITERS)
async def test_a_loop_of_the_older_term_writes_nothing_and_steps_down(stores: Stores, name: str) -> None:
    pair = await Pair.begin(stores, WRITERS[name])
    fleet, loop = pair.fleet, loop_of(pair.older, name)
    before = await fleet.dump()
    with pytest.raises(NotLeader):
        await loop.run_once(fleet.clock.now())
    assert await fleet.dump() == before
    # The same pass, as the loop runs it by itself.
    await one_pass_of_its_own(loop)
    assert pair.older.lead.term is None
    assert await fleet.dump() == before
    assert await loop.run_once(fleet.clock.now()) is None


@pytest.mark.parametrize("name", WRITERS)
async def test_what_the_older_term_was_refused_would_have_been_written_under_its_own(stores: Stores, name: str) -> None:
    """The control of the test above: without the newer leader each of these passes changes something."""
    fleet = Fleet(await stores.fresh())
    await fleet.start()
    await WRITERS[name](fleet)
    before = await fleet.dump()
    await loop_of(fleet.master, name).run_once(fleet.clock.now())
    assert await fleet.dump() != before


def test_every_loop_that_writes_is_among_them() -> None:
    writers = {loop.name for loop in LeaderLoop.__subclasses__() if loop.__module__.startswith("crawlfleet.")}
    # The reconciler repairs memory, the watchdog calls the outside.
    assert writers - {"reconciler", "watchdog"} == {name.partition(",")[0] for name in WRITERS}


async def test_tasks_the_older_dispatcher_could_not_assign_are_placed_once_by_the_newer(stores: Stores) -> None:
    pair = await Pair.begin(stores, waiting_tasks)
    fleet = pair.fleet
    with pytest.raises(NotLeader):
        await pair.older.dispatcher.run_once(fleet.clock.now())
    assert pair.older.ledger.held_pairs() == set()
    await fleet.dispatch()
    assert len(await fleet.held_by(fleet.nodes[0])) == 5
    await fleet.settle()
    assert len(await fleet.executions()) == 5
    await fleet.judge()


async def test_two_dispatchers_at_once_place_each_task_once(stores: Stores) -> None:
    pair = await Pair.begin(stores, waiting_tasks)
    fleet = pair.fleet
    await fleet.node(slots=50)
    for _ in range(8):
        await fleet.tasks(10)
        fleet.clock.advance(1.1)
        passes = [master.dispatcher.run_once(fleet.clock.now()) for master in (pair.older, pair.newer)]
        answers = await asyncio.gather(*passes, return_exceptions=True)
        assert all(isinstance(answer, DispatchReport | NotLeader) for answer in answers), answers
        # The older one also took hints that were for the newer: that is found.
        await pair.newer.reconciler.run_once(fleet.clock.now())
        await fleet.settle()
    assert len(await fleet.executions()) == 85
    await fleet.judge()


async def test_a_leader_that_hears_of_the_newer_term_steps_down_at_its_next_beat(stores: Stores) -> None:
    pair = await Pair.begin(stores)
    assert pair.older.lead.term == pair.old_term
    await pair.older.leader.run_once(pair.fleet.clock.now())
    assert pair.older.lead.term is None
    await pair.newer.leader.run_once(pair.fleet.clock.now())
    assert pair.newer.lead.term == 2
    for _ in range(10):
        pair.fleet.clock.advance(1)
        for master in (pair.newer, pair.older):
            await master.leader.run_once(pair.fleet.clock.now())
    assert (pair.older.lead.term, pair.newer.lead.term) == (None, 2)


async def test_a_silent_leader_is_replaced_and_one_that_beats_is_not(stores: Stores) -> None:
    fleet = Fleet(await stores.fresh())
    first = await fleet.start()
    second = await fleet.start(leads=False)
    for _ in range(10):
        fleet.clock.advance(1)
        await first.leader.run_once(fleet.clock.now())
        await second.leader.run_once(fleet.clock.now())
        assert second.lead.term is None
    waited = 0
    while second.lead.term is None:
        fleet.clock.advance(1)
        waited += 1
        await second.leader.run_once(fleet.clock.now())
    assert SILENCE_S <= waited <= 5
    assert first.lead.term == 1
    await first.leader.run_once(fleet.clock.now())
    assert first.lead.term is None


async def test_a_leader_that_resigns_is_replaced_at_once(stores: Stores) -> None:
    fleet = Fleet(await stores.fresh())
    first = await fleet.start()
    second = await fleet.start(leads=False)
    await first.leader.resign()
    await second.leader.run_once(fleet.clock.now())
    assert (first.lead.term, second.lead.term) == (None, 2)


async def test_a_leader_whose_beats_the_store_does_not_take_steps_down_by_itself(stores: Stores) -> None:
    store = await stores.fresh()
    is_away = False

    async def around(name: str, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        if is_away:
            raise StoreUnavailable(name)
        return await method(*args, **kwargs)

    fleet = Fleet(store)
    master = await fleet.start(store_between(store, around))
    is_away = True
    held = []
    for _ in range(5):
        fleet.clock.advance(1.01)
        with pytest.raises(StoreUnavailable):
            await master.leader.run_once(fleet.clock.now())
        held.append(master.lead.term)
    assert held == [1, 1, None, None, None]
    is_away = False
    await master.leader.run_once(fleet.clock.now())
    assert master.lead.term == 1
    await fleet.node()
    await fleet.tasks(2)
    await fleet.settle()
    assert await fleet.store.task_totals() == {TaskStatus.COMPLETED: 2}
