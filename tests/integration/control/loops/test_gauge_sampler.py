"""The sampler of gauges over a real store."""

from __future__ import annotations

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.gauge_sampler import GaugeSampler
from crawlfleet.model.figures import task_figures as figures
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit, KitClock


async def test_a_sample_says_what_waits_and_runs(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    term = await kit.term()
    node = await kit.node()
    await kit.join()
    begun = kit.now
    await kit.submit(3)
    await kit.run(node, 2)
    kit.later(5_000)
    sampler = GaugeSampler(store=store, clock=KitClock(kit), leadership=LeadershipState())
    await sampler.run_term(term, kit.now)
    (point,) = await store.gauge_history(figures.MINUTE_S, 0, kit.now + 1, 10)
    sample = {name: figures.average_gauge(point.figures, place) for place, name in enumerate(figures.GAUGES)}
    slots = (await store.load_nodes())[0].slots
    assert sample == {
        "waiting": 3,
        "running": 2,
        "slots": slots,
        "slots_used": 2,
        "nodes": 1,
        "oldest_wait_ms": kit.now - begun,
    }
