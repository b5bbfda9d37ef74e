"""What people see and do: lists with reasons, acknowledgements, silences, notices."""

from __future__ import annotations

import pytest

from crawlfleet.errors import Conflict, InvalidInput, NotFound
from crawlfleet.model.alerts.alert import AlertStatus
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet

pytestmark = pytest.mark.integration


async def break_broker(fleet: AlertFleet) -> None:
    await fleet.set_rule("broker_away", for_s=0)
    fleet.broker_reason = "refused"


async def test_alerts_are_listed_with_why_they_are_quiet(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    alerts = fleet.master.alert_parts.alerts
    await break_broker(fleet)
    await alerts.add_silence({"rule": "broker_*"}, None, fleet.clock.now() + 60_000, "we move", "ann")
    await fleet.watch(4)
    [report] = await alerts.list_alerts()
    assert (report.state.status, report.muted_why) == (AlertStatus.FIRING, "silenced by ann: we move")
    assert await alerts.list_alerts("node_down") == []
    assert await alerts.list_alerts(status=AlertStatus.PENDING) == []
    assert await alerts.count_firing() == {("broker_away", "warning"): 1}
    await fleet.watch(70)
    assert fleet.service.heard() == [("firing", "broker_away")]


async def test_an_acknowledged_alert_is_quiet_until_it_recovers(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    alerts = fleet.master.alert_parts.alerts
    with pytest.raises(NotFound):
        await alerts.acknowledge("broker_away", "*", "ann", "")
    await break_broker(fleet)
    await fleet.watch(12)
    state = await alerts.acknowledge("broker_away", "*", "ann", "redis is being moved")
    assert state.acknowledged_by == "ann"
    await fleet.watch(5 * 3_600, 600)
    assert fleet.service.heard() == [("firing", "broker_away")]
    fleet.broker_reason = None
    await fleet.watch(60, 5)
    assert fleet.service.heard() == [("firing", "broker_away"), ("recovered", "broker_away")]
    fleet.broker_reason = "refused again"
    await fleet.watch(400, 5)
    assert fleet.service.heard()[2:] == [("firing", "broker_away")]
    fleet.broker_reason = None
    await fleet.watch(40, 5)
    with pytest.raises(Conflict):
        await alerts.acknowledge("broker_away", "*", "ann", "")


async def test_a_reminder_comes_after_four_hours(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await break_broker(fleet)
    await fleet.watch(12)
    await fleet.watch(8 * 3_600 + 700, 300)
    assert [(notice.state, notice.reminder) for notice in fleet.service.notices()] == [
        ("firing", 0),
        ("reminder", 1),
        ("reminder", 2),
    ]


async def test_silences_are_checked_listed_and_ended(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store)
    alerts, now = fleet.master.alert_parts.alerts, fleet.clock.now()
    made = await alerts.add_silence({"scope": "node:*"}, now + 10, now + 1_000, "test", "ann")
    assert await alerts.list_silences() == [made]
    for matchers, until_at in (({}, now + 10), ({"rule": "x"}, now - 1), ({"colour": "red"}, now + 10)):
        with pytest.raises(InvalidInput):
            await alerts.add_silence(matchers, None, until_at, "test", "ann")
    assert (await alerts.end_silence(made.id)).until_at == now
    with pytest.raises(NotFound):
        await alerts.end_silence(made.id + 1)
    with pytest.raises(InvalidInput):
        await alerts.list_silences(0)


async def test_notices_are_listed_with_their_answers(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops", "boss")
    await break_broker(fleet)
    await fleet.watch(12)
    alerts = fleet.master.alert_parts.alerts
    assert {(notice.channel, notice.answer) for notice in await alerts.list_notices()} == {
        ("ops", "ok"),
        ("boss", "ok"),
    }
    [first] = await alerts.list_notices(1)
    assert len(await alerts.list_notices(10, before=first.id)) == 1
    for limit, before in ((0, None), (10**6, None), (10, 0)):
        with pytest.raises(InvalidInput):
            await alerts.list_notices(limit, before)
