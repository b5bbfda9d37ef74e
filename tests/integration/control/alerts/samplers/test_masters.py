"""Alerts about the masters themselves: slow commits, the broker, certificates, versions."""

from __future__ import annotations

from typing import Any

import pytest

from crawlfleet.control.alerts.alert_options import Certificate
from crawlfleet.model.installation.master import MasterFigures, MasterIdentity
from crawlfleet.store.store import SqlStore
from testkit.clock import FakeClock
from tests.integration.control.alerts.alerts_kit import AlertFleet

pytestmark = pytest.mark.integration
DAY_MS = 86_400_000


class SlowStore:
    """A store whose heartbeats take as long as the test wants."""

    def __init__(self, fleet: AlertFleet) -> None:
        self._fleet = fleet
        self.took_s = 0.0

    async def record_beat(self, term: int) -> bool:
        self._fleet.clock.advance(self.took_s)
        return await self._fleet.store.record_beat(term)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fleet.store, name)


async def test_slow_commits_are_told_after_two_minutes(store: SqlStore) -> None:
    fleet = AlertFleet(store)
    slow: Any = SlowStore(fleet)
    await fleet.start(slow)
    await fleet.add_channel("ops")

    async def beat(took_s: float, seconds: int) -> None:
        slow.took_s = took_s
        for _ in range(seconds // 2):
            await fleet.master.leader.run_once(fleet.clock.now())
            await fleet.watch(2 - took_s, 2 - took_s)

    await beat(0.01, 60)
    await beat(0.7, 100)
    assert await fleet.alert_status("store_slow") == "pending"
    await beat(0.7, 60)
    assert fleet.service.heard() == [("firing", "store_slow")]
    assert fleet.service.notices()[0].why == "Commits take 700 ms at the 99th percentile."
    await beat(0.01, 120)
    assert await fleet.alert_status("store_slow") == "ok"


async def test_a_broker_that_is_away_for_a_minute_is_told(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    fleet.broker_reason = "connection refused"
    await fleet.watch(58)
    assert fleet.service.arrived == []
    await fleet.watch(14)
    assert fleet.service.heard() == [("firing", "broker_away")]
    fleet.broker_reason = None
    await fleet.watch(400, 5)
    assert fleet.service.heard()[1:] == [("recovered", "broker_away")]


async def test_a_certificate_that_ends_soon_is_told_until_it_is_renewed(store: SqlStore) -> None:
    ends = [20.5]
    clock = FakeClock()
    fleet = AlertFleet(store, certificates=lambda: [Certificate("m1", clock.now() + round(ends[0] * DAY_MS))])
    fleet.clock = clock
    await fleet.start()
    await fleet.add_channel("ops")
    await fleet.watch(12)
    [notice] = fleet.service.notices()
    assert (notice.scope, notice.value) == ("master:m1", 20.5)
    ends[0] = 90
    await fleet.watch(2)
    assert await fleet.alert_status("certificate", "master:m1") == "ok"


async def test_masters_of_two_versions_are_told_until_one_has_stopped(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("version_mixed", for_s=60)
    masters = [
        MasterIdentity(await store.register_master(name, fleet.clock.now()), name, fleet.clock.now(), version)
        for name, version in (("m1", "1.0"), ("m2", "1.1"))
    ]

    async def run(seconds: int) -> None:
        for _ in range(seconds // 5):
            for master in masters:
                await store.record_master_beat(master, MasterFigures(), fleet.clock.now())
            await fleet.watch(5, 5)

    await run(50)
    assert await fleet.alert_status("version_mixed") == "pending"
    await run(40)
    [notice] = fleet.service.notices()
    assert notice.why == "Masters differ: m1 runs 1.0, m2 runs 1.1."
    await store.record_master_stop(masters.pop(0).boot)
    await run(100)
    assert await fleet.alert_status("version_mixed") == "ok"
