"""Every kind of rule has a sampler, and every loop of alerts is among those that a master runs."""

from __future__ import annotations

from random import Random

from crawlfleet.bootstrap.master import Master
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.store import SqlStore
from testkit.clock import FakeClock


class NoEngine:
    """An engine that no call reaches."""


async def test_every_kind_is_measured_and_every_loop_runs() -> None:
    engine: QueryEngine = NoEngine()  # type: ignore[assignment]
    master = Master(
        name="m",
        boot=1,
        store=SqlStore(engine),
        broker=MemoryBroker(),
        clock=FakeClock(),
        rng=Random(1),
        schemas={},
    )
    assert master.alert_parts.sampling.kinds == set(RULE_KINDS)
    assert set(master.alert_parts.loops) <= set(master.loops)
