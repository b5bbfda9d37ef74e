"""No leader: found by any master, written once, and told also while the store is away."""

from __future__ import annotations

from typing import Any

import pytest

from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.notice import NoticeState
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet
from tests.integration.faults.faults_stores import Stores

pytestmark = pytest.mark.integration


async def watch_leader(fleet: AlertFleet, seconds: int) -> None:
    for _ in range(seconds):
        fleet.clock.advance(1)
        await fleet.master.alert_parts.leader_watcher.run_once(fleet.clock.now())
        await fleet.master.alert_parts.notifier.run_once(fleet.clock.now())


async def lose_leader(store: SqlStore) -> AlertFleet:
    """The leader is frozen, and a second master sees it: its own election does not happen, as if it were stuck."""
    fleet = await AlertFleet.make(store, "ops")
    await watch_leader(fleet, 2)
    await fleet.start(leads=False)
    return fleet


async def test_a_silent_leader_is_told_after_its_span(store: SqlStore) -> None:
    fleet = await lose_leader(store)
    await watch_leader(fleet, 15)
    assert fleet.service.heard() == []
    await watch_leader(fleet, 2)
    assert fleet.service.heard() == [("firing", "no_leader")]
    await watch_leader(fleet, 60)
    assert len(fleet.service.arrived) == 1


async def test_a_leader_that_is_back_lets_it_recover(store: SqlStore) -> None:
    fleet = await lose_leader(store)
    await watch_leader(fleet, 20)
    await fleet.lead()
    await fleet.watch(400, 5)
    assert fleet.service.heard() == [("firing", "no_leader"), ("recovered", "no_leader")]
    assert await fleet.alert_status("no_leader") == "ok"


async def test_several_masters_that_see_the_silence_tell_it_once(stores: Stores) -> None:
    store = await stores.fresh()
    fleet = await lose_leader(store)
    first = fleet.master
    second = await fleet.start(leads=False)
    for _ in range(30):
        fleet.clock.advance(1)
        for master in (first, second):
            await master.alert_parts.leader_watcher.run_once(fleet.clock.now())
            await master.alert_parts.notifier.run_once(fleet.clock.now())
    assert fleet.service.heard() == [("firing", "no_leader")]


async def test_a_rule_that_is_off_or_silenced_tells_nothing(store: SqlStore) -> None:
    fleet = await lose_leader(store)
    until_at = fleet.clock.now() + 3_600_000
    await fleet.master.alert_parts.alerts.add_silence({"rule": "no_*"}, None, until_at, "test", "ann")
    await watch_leader(fleet, 30)
    assert fleet.service.arrived == []
    assert await fleet.alert_status("no_leader") == "firing"


class AwayStore:
    """A store that answers until the test takes it away."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        if self.is_away:
            raise StoreUnavailable("played")
        return getattr(self._store, name)


async def test_a_store_that_is_away_is_told_without_it(store: SqlStore) -> None:
    fleet = AlertFleet(store)
    away: Any = AwayStore(store)
    await fleet.start(away)
    await fleet.add_channel("ops")
    await watch_leader(fleet, 61)
    away.is_away = True
    # The leader cannot renew its term, and steps down by itself.
    fleet.master.lead.end_term()
    for _ in range(20):
        fleet.clock.advance(1)
        with pytest.raises(StoreUnavailable):
            await fleet.master.alert_parts.leader_watcher.run_once(fleet.clock.now())
    assert fleet.service.heard() == [("firing", "no_leader")]
    [notice] = fleet.service.notices()
    assert notice.why == "The store does not answer: the store does not answer."
    away.is_away = False
    await fleet.lead()
    await watch_leader(fleet, 2)
    assert [notice.state for notice in fleet.service.notices()] == [NoticeState.FIRING, NoticeState.RECOVERED]
    assert fleet.service.notices()[1].id == f"{notice.id}-recovered"
