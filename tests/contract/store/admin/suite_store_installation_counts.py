"""Counts for the metrics of the installation."""

import asyncio

from crawlfleet.model.host import HostLimits
from crawlfleet.model.schedule import Overlap, TickStatus
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from testkit.factories import PROJECT, Kit
from tests.contract.store.composites.schedules_kit import MINUTE_MS, by_hand, fire, firings_due, made


async def an_empty_installation_counts_nothing(store: Store, kit: Kit) -> None:
    counts = await store.installation_counts(kit.now)
    assert (counts.running, counts.queued, counts.held) == ({}, {}, {})
    assert (counts.dead_letters, counts.hosts_in_backoff) == (0, 0)
    assert counts.ticks == dict.fromkeys(TickStatus, 0)
    assert await store.browse_nodes() == []


async def held_tasks_and_dead_letters_are_counted(store: Store, kit: Kit) -> None:
    node, other = await kit.node(), await kit.node()
    runs = await kit.run(node, 3)
    await kit.run(other, 1)
    await kit.complete(runs[0])
    await kit.ended_failed()
    await kit.submit(2)
    while await store.fold_counters(await kit.term()):
        pass
    counts = await kit.second.installation_counts(kit.now)
    assert counts.running == {PROJECT: 3}
    assert counts.queued == {(5, TaskStatus.PENDING): 2}
    assert counts.held == {node.id: 2, other.id: 1}
    assert counts.dead_letters == 1
    assert [node.id for node in await store.browse_nodes()] == [node.id for node in await store.load_nodes()]


async def ticks_are_counted_by_their_result_and_outlive_their_rows(store: Store, kit: Kit) -> None:
    schedule = await made(kit, overlap=Overlap.SKIP)
    kit.later(MINUTE_MS)
    await fire(kit)
    # The task of the first tick has not ended: the second one is skipped.
    kit.later(MINUTE_MS)
    await fire(kit)
    await store.run_schedule(by_hand(kit, schedule, is_forced=True), kit.now)
    await store.remove_schedule(schedule.id, kit.now)
    ticks = (await kit.second.installation_counts(kit.now)).ticks
    assert ticks == {TickStatus.FIRED: 1, TickStatus.SKIPPED: 1, TickStatus.REFUSED: 0, TickStatus.BY_HAND: 1}


async def a_tick_that_two_masters_fire_is_counted_once(store: Store, kit: Kit) -> None:
    for _ in range(10):
        await made(kit)
    kit.later(MINUTE_MS)
    term = await kit.term()
    one, two = await firings_due(kit), await firings_due(kit, kit.second)
    await asyncio.gather(store.fire_schedules(one, term, kit.now), kit.second.fire_schedules(two, term, kit.now))
    assert (await store.installation_counts(kit.now)).ticks[TickStatus.FIRED] == 10


async def hosts_are_in_backoff_until_it_ends(store: Store, kit: Kit) -> None:
    for name in ("a.example", "b.example"):
        await store.set_host(name, HostLimits(), "someone", kit.now)
    until = kit.now + 1_000
    await kit.second.engine.write(
        lambda tx: tx.execute("UPDATE host SET backoff_until = $1 WHERE name = $2", until, "a.example")
    )
    assert (await store.installation_counts(kit.now)).hosts_in_backoff == 1
    assert (await store.installation_counts(until)).hosts_in_backoff == 0
