"""Leadership: one row with a term, and writes of an older term that change nothing."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

import pytest

from crawlfleet.errors import NotLeader
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.figures.task_figures import GAUGES
from crawlfleet.model.host import Host
from crawlfleet.model.host_stats import Batch, empty_row
from crawlfleet.model.ids import BOOTS, IdSlot
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.ports.alert_store import AlertChanges
from crawlfleet.ports.event_store import EndedRuns
from crawlfleet.ports.host_store import GrantChange
from crawlfleet.ports.leadership_store import LeaderRow
from crawlfleet.ports.node_store import HealthChange, SlotChange
from crawlfleet.ports.queue_store import Preemption
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import Kit
from tests.contract.store.composites.schedules_kit import MINUTE_MS, firings_due, made

ROUNDS = 20


async def nobody_leads_at_first(store: Store, kit: Kit) -> None:
    assert await kit.second.read_leader() == LeaderRow(0, "", 0)


async def whoever_campaigns_first_leads(store: Store, kit: Kit) -> None:
    assert await store.campaign("a", await store.read_leader(), kit.now) == 1
    assert await kit.second.read_leader() == LeaderRow(1, "a", 0)


async def of_two_first_campaigns_at_once_one_wins(store: Store, kit: Kit) -> None:
    seen = await store.read_leader()
    terms = await asyncio.gather(store.campaign("a", seen, kit.now), kit.second.campaign("b", seen, kit.now))
    assert sorted(terms, key=str) == [1, None]


async def of_many_campaigns_at_once_one_wins_each_term(store: Store, kit: Kit) -> None:
    for term in range(1, ROUNDS):
        seen = await store.read_leader()
        names = [f"master {n}" for n in range(4)]
        terms = await asyncio.gather(
            *((store, kit.second)[n % 2].campaign(name, seen, kit.now) for n, name in enumerate(names))
        )
        assert [won for won in terms if won is not None] == [term]
        assert (await kit.second.read_leader()).holder == names[terms.index(term)]


async def a_leader_that_beat_meanwhile_is_not_replaced(store: Store, kit: Kit) -> None:
    await store.campaign("a", await store.read_leader(), kit.now)
    seen = await kit.second.read_leader()
    assert await store.record_beat(1)
    async with kit.unchanged():
        assert await kit.second.campaign("b", seen, kit.now) is None


async def a_campaign_on_an_old_view_is_lost(store: Store, kit: Kit) -> None:
    nobody = await store.read_leader()
    await store.campaign("a", nobody, kit.now)
    async with kit.unchanged():
        assert await kit.second.campaign("b", nobody, kit.now) is None


async def beats_are_counted(store: Store, kit: Kit) -> None:
    await store.campaign("a", await store.read_leader(), kit.now)
    assert await store.record_beat(1)
    assert await store.record_beat(1)
    assert await kit.second.read_leader() == LeaderRow(1, "a", 2)


async def a_beat_of_an_older_term_is_told_so(store: Store, kit: Kit) -> None:
    old = await _replaced(kit)
    async with kit.unchanged():
        assert not await store.record_beat(old)


async def a_leader_that_resigned_can_be_replaced_at_once(store: Store, kit: Kit) -> None:
    await store.campaign("a", await store.read_leader(), kit.now)
    await store.resign(1)
    seen = await kit.second.read_leader()
    assert (seen.term, seen.holder) == (1, "")
    assert await kit.second.campaign("b", seen, kit.now) == 2


async def resigning_an_older_term_changes_nothing(store: Store, kit: Kit) -> None:
    old = await _replaced(kit)
    async with kit.unchanged():
        await store.resign(old)


async def every_start_of_a_master_has_a_number_of_its_own(store: Store, kit: Kit) -> None:
    boots = await asyncio.gather(*((store, kit.second)[n % 2].register_master("m", kit.now) for n in range(10)))
    assert len(set(boots)) == 10


async def starts_of_masters_that_run_share_no_slot_of_ids(store: Store, kit: Kit) -> None:
    held = await asyncio.gather(*((store, kit.second)[n % 2].take_id_slot(7 + n * BOOTS, kit.now) for n in range(10)))
    assert len({each.slot for each in held}) == 10
    assert {each.until for each in held} == {0}
    again = await kit.second.take_id_slot(7, kit.now)
    assert again == IdSlot(held[0].slot, kit.now), "the same start, after a lost answer"


async def the_slot_of_ids_that_was_silent_the_longest_is_used_again_behind_its_last_id(store: Store, kit: Kit) -> None:
    held = [await store.take_id_slot(boot, kit.now + boot) for boot in range(1, BOOTS + 1)]
    assert len({each.slot for each in held}) == BOOTS
    # The first one runs, the second one is silent.
    assert await store.keep_id_slot(held[0].slot, 1, kit.now + 2 * BOOTS)
    assert await kit.second.take_id_slot(BOOTS + 1, kit.now - 5_000) == IdSlot(held[1].slot, kit.now + 2)
    assert not await store.keep_id_slot(held[1].slot, 2, kit.now + 9_000), "it is another's now"
    assert (await kit.second.take_id_slot(2, kit.now)).slot == held[2].slot
    # A clock that was set back does not take back what was said before.
    assert await store.keep_id_slot(held[0].slot, 1, kit.now)
    assert await kit.second.take_id_slot(1, kit.now) == IdSlot(held[0].slot, kit.now + 2 * BOOTS)


async def the_leaders_writes_are_taken(store: Store, kit: Kit) -> None:
    for name, write in (await _writes_under_a_term(kit)).items():
        term = await _next_term(kit)
        await write(term)
        assert await store.record_beat(term), name


async def writes_of_an_older_term_change_nothing(store: Store, kit: Kit) -> None:
    writes = await _writes_under_a_term(kit)
    old = await _replaced(kit)
    for name, write in writes.items():
        async with kit.unchanged():
            with pytest.raises(NotLeader):
                await write(old)
                pytest.fail(f"{name} was taken")


async def writes_of_a_term_that_never_was_change_nothing(store: Store, kit: Kit) -> None:
    for write in (await _writes_under_a_term(kit)).values():
        async with kit.unchanged():
            with pytest.raises(NotLeader):
                await write(99)


async def writes_of_a_term_that_was_resigned_change_nothing(store: Store, kit: Kit) -> None:
    writes = await _writes_under_a_term(kit)
    term = await _next_term(kit)
    await store.resign(term)
    async with kit.unchanged():
        assert not await store.record_beat(term)
        for write in writes.values():
            with pytest.raises(NotLeader):
                await write(term)


async def nobody_writes_before_the_first_election(store: Store, kit: Kit) -> None:
    writes = await _writes_under_a_term(kit)
    async with kit.unchanged():
        for write in writes.values():
            with pytest.raises(NotLeader):
                await write(0)


async def a_leader_replaced_while_it_writes_is_refused_or_done_before(store: Store, kit: Kit) -> None:
    """Either the write was whole before the new term began, or it is refused."""
    for _ in range(ROUNDS):
        term = await _next_term(kit)
        seen = await store.read_leader()
        task = await kit.submit_one()
        calls: list[Awaitable[object]] = [
            store.change_tasks([task], task_state_machine.cancel_task("old leader"), kit.now, term),
            kit.second.campaign("new", seen, kit.now),
        ]
        answers = await asyncio.gather(*kit.rng.sample(calls, len(calls)), return_exceptions=True)
        was_refused = any(isinstance(answer, NotLeader) for answer in answers)
        assert (await kit.status(task)).is_final != was_refused


async def _next_term(kit: Kit) -> int:
    term = await kit.store.campaign("a", await kit.store.read_leader(), kit.now)
    assert term is not None
    return term


async def _replaced(kit: Kit) -> int:
    """The term of a leader that another one has replaced."""
    old = await _next_term(kit)
    await _next_term(kit)
    return old


async def _writes_under_a_term(kit: Kit) -> dict[str, Callable[[int], Awaitable[object]]]:
    """Every method of the store that takes a term, each with a call that has something to write."""
    await made(kit)
    kit.later(MINUTE_MS)
    firings = await firings_due(kit)
    store, now = kit.store, kit.now
    task, other, node = await kit.submit_one(), await kit.submit_one(), await kit.node()
    done = await kit.ended_completed(group=await kit.group())
    item = await kit.assignment(task, node)
    run = await kit.run_one(await kit.node())
    room = Preemption(run.task, run.execution, 1, run.node.id, other)
    await store.add_figures([Batch(node.id, 1, 1, [("a.example", empty_row())])], now)
    far = now + 10_000_000
    writes: dict[str, Callable[[int], Awaitable[object]]] = {
        "assign_tasks": lambda term: store.assign_tasks([item], term, now),
        "change_tasks": lambda term: store.change_tasks([other], task_state_machine.cancel_task("no"), now, term),
        "end_session": lambda term: store.end_session(
            node.id, node.session, NodeStatus.UNRESPONSIVE, kit.lose(), now, term=term
        ),
        "set_health": lambda term: store.set_health(
            [HealthChange(node.id, Health.UNKNOWN, Health.HEALTHY, {})], term, now
        ),
        "preempt_executions": lambda term: store.preempt_executions([room], term, now),
        "scale_slots": lambda term: store.scale_slots([SlotChange(node.id, 10, 12, "more")], term, now),
        "add_heartbeats": lambda term: store.add_heartbeats([(node.id, b"{}")], term, now),
        "record_events": lambda term: store.record_events(
            [EventBatch(Kind.NODE_UNAVAILABLE, shared={"a": 1})], now, term
        ),
        "relay_events": lambda term: store.relay_events(term, 10),
        "fold_counters": store.fold_counters,
        "settle_groups": lambda term: store.settle_groups(term, now),
        "prune_rows": lambda term: store.prune_rows(term, far, 0, 0, 10),
        "mark_chunks_removed": lambda term: store.mark_chunks_removed(term, [done]),
        "remove_unused_lanes": lambda term: store.remove_unused_lanes(term, 1, [kit.lane.id]),
        "set_clock_mark": lambda term: store.set_clock_mark(term, now),
        "fire_schedules": lambda term: store.fire_schedules(firings, term, now),
        "put_grants": lambda term: store.put_grants(GrantChange(hosts=[Host("a.example")]), term, now),
        "drop_hosts": lambda term: store.drop_hosts(term, far, 10),
        "fold_evidence": lambda term: store.fold_evidence(EndedRuns(0, 0, []), [], term),
        "fold_figures": lambda term: store.fold_figures(term, now),
        "drop_figures": lambda term: store.drop_figures(term, far),
        "drop_task_figures": lambda term: store.drop_task_figures(term, far + 500 * 86_400_000),
        "record_alerts": lambda term: store.record_alerts(AlertChanges(forgotten=[("node_down", "a")]), now, term),
        "drop_old_notices": lambda term: store.drop_old_notices(term, far, 10),
        "remove_finished": lambda term: store.remove_finished(term, far, far, [done]),
        "put_gauges": lambda term: store.put_gauges(term, now, [1] * len(GAUGES)),
    }
    assert done in await kit.second.load_tasks([done])
    # Those two are about the term itself and answer for it.
    takes_a_term = set(_methods_with("term")) - {"record_beat", "resign"}
    assert set(writes) == takes_a_term
    return writes


def _methods_with(parameter: str) -> list[str]:
    methods = inspect.getmembers(Store, inspect.iscoroutinefunction)
    return [name for name, method in methods if parameter in inspect.signature(method).parameters]
