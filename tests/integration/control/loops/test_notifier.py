"""The notifier: each notice at least once, refusals tried again, floods merged, a failing channel told by others."""

from __future__ import annotations

import asyncio

import pytest

from crawlfleet.model.notice import NoticeState
from crawlfleet.ports.alert_store import NoticeStatus
from crawlfleet.ports.notice_channel import Delivery
from crawlfleet.store.store import SqlStore
from testkit.patience import PATIENCE_S
from tests.integration.control.alerts.alerts_kit import DELIVERED, REFUSED, AlertFleet, PlayedService

pytestmark = pytest.mark.integration


async def fire(fleet: AlertFleet, rule: str = "broker_away") -> None:
    """An alert that fires for real: the broker reports that it is away."""
    await fleet.set_rule(rule, for_s=0)
    fleet.broker_reason = "refused"
    await fleet.watch(12)


async def begin(store: SqlStore, *channels: str, service: PlayedService | None = None) -> AlertFleet:
    return await AlertFleet.make(store, *channels, service=service)


async def test_an_alert_reaches_every_channel_once(store: SqlStore) -> None:
    fleet = await begin(store, "ops", "boss")
    await fire(fleet)
    await fleet.watch(30)
    assert fleet.service.heard("ops") == [("firing", "broker_away")] == fleet.service.heard("boss")
    [notice] = fleet.service.notices("ops")
    assert notice.why == "The broker does not answer: refused."
    assert notice.link == "https://fleet.example/api/v1/alerts?rule=broker_away"
    assert notice.installation == "test"
    fleet.broker_reason = None
    await fleet.watch(400, 5)
    assert fleet.service.heard("ops") == [("firing", "broker_away"), ("recovered", "broker_away")]
    assert fleet.service.closed == 4


async def test_a_refused_notice_is_tried_again_with_the_same_id(store: SqlStore) -> None:
    fleet = await begin(store, "ops")
    fleet.service.answer("ops", REFUSED, REFUSED, DELIVERED)
    await fire(fleet)
    [stored] = await store.notice_page(10)
    assert (stored.status, stored.tries, stored.answer) == (NoticeStatus.DUE, 1, REFUSED.answer)
    await fleet.watch(20)
    assert len({notice.id for notice in fleet.service.notices()}) == 1
    assert len(fleet.service.arrived) == 3
    [stored] = await store.notice_page(10)
    assert (stored.status, stored.tries, stored.answer) == (NoticeStatus.DELIVERED, 3, "ok")
    assert dict(fleet.master.metrics.notices.items()) == {("ops", "refused"): 2, ("ops", "delivered"): 1}


async def test_the_wish_of_a_service_is_kept(store: SqlStore) -> None:
    fleet = await begin(store, "ops")
    fleet.service.answer("ops", Delivery(False, "429", 429, retry_after_s=120))
    await fire(fleet)
    await fleet.watch(100)
    assert len(fleet.service.arrived) == 1
    await fleet.watch(30)
    assert len(fleet.service.arrived) == 2


async def test_a_crash_between_sending_and_marking_repeats_the_notice(store: SqlStore) -> None:
    fleet = await begin(store, "ops")
    await fleet.set_rule("broker_away", for_s=0)
    fleet.broker_reason = "refused"
    for _ in range(12):
        fleet.clock.advance(1)
        await fleet.master.alert_parts.evaluator.run_once(fleet.clock.now())
    fleet.service.gate.clear()
    sending = asyncio.create_task(fleet.master.alert_parts.notifier.run_once(fleet.clock.now()))
    await asyncio.wait_for(fleet.service.has_arrived.wait(), PATIENCE_S)
    # The master is gone: it was sent, and never marked.
    sending.cancel()
    await asyncio.wait([sending])
    fleet.service.gate.set()
    await fleet.start(leads=False)
    await fleet.lead()
    await fleet.watch(70)
    first, second = fleet.service.notices()
    assert first.id == second.id
    await fleet.watch(120, 5)
    assert len(fleet.service.arrived) == 2


async def test_a_channel_that_is_gone_is_disabled_and_the_others_hear_of_it(store: SqlStore) -> None:
    fleet = await begin(store, "ops", "boss")
    fleet.service.answer("ops", Delivery(False, "410 Gone", 410, is_permanent=True, is_gone=True))
    await fire(fleet)
    await fleet.watch(30)
    assert fleet.service.heard("ops") == [("firing", "broker_away")]
    assert fleet.service.heard("boss") == [("firing", "broker_away"), ("firing", "channel_failing")]
    assert "410 Gone" in fleet.service.notices("boss")[1].why
    assert await fleet.alert_status("channel_failing", "channel:ops") == "firing"
    # A person mends it: what waited is sent, and the alert recovers.
    await fleet.add_channel("ops")
    await fleet.watch(10)
    assert fleet.service.heard("ops") == [("firing", "broker_away")] * 2
    assert await fleet.alert_status("channel_failing", "channel:ops") == "ok"


async def test_a_channel_that_keeps_failing_is_told_through_the_others(store: SqlStore) -> None:
    fleet = await begin(store, "ops", "boss")
    fleet.service.answer("ops", *[REFUSED] * 100)
    await fire(fleet)
    await fleet.watch(60)
    assert ("firing", "channel_failing") in fleet.service.heard("boss")
    assert ("firing", "channel_failing") not in fleet.service.heard("ops")


async def test_more_than_a_channel_may_send_becomes_one_digest(store: SqlStore) -> None:
    fleet = await begin(store, "ops", service=PlayedService(max_notices=2))
    fleet.broker_reason = "refused"
    for number in range(5):
        await fleet.set_rule(f"mine_{number}", kind="broker_away", for_s=0)
    await fleet.watch(12)
    first, digest = fleet.service.notices()
    assert (first.state, digest.state, digest.count) == (NoticeState.FIRING, NoticeState.DIGEST, 4)
    merged = await store.notice_page(10, status=NoticeStatus.MERGED)
    assert len(merged) == 4
    await fleet.watch(60)
    assert len(fleet.service.arrived) == 2 + 1  # broker_away itself fires after its own minute


async def test_a_hanging_channel_does_not_hold_up_the_others(store: SqlStore) -> None:
    fleet = await begin(store, "ops", "boss")
    notifier = fleet.master.alert_parts.notifier
    running = asyncio.create_task(notifier.run())
    try:
        fleet.service.gate.clear()
        await fleet.set_rule("broker_away", for_s=0)
        fleet.broker_reason = "refused"
        for _ in range(12):
            fleet.clock.advance(1)
            await fleet.master.alert_parts.evaluator.run_once(fleet.clock.now())

        async def both_arrived() -> None:
            while {name for name, _ in fleet.service.arrived} != {"ops", "boss"}:
                fleet.service.has_arrived.clear()
                await fleet.service.has_arrived.wait()

        await asyncio.wait_for(both_arrived(), PATIENCE_S)
        fleet.service.gate.set()
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_master_that_does_not_lead_sends_nothing(store: SqlStore) -> None:
    fleet = await begin(store, "ops")
    await fleet.set_rule("broker_away", for_s=0)
    fleet.broker_reason = "refused"
    for _ in range(12):
        fleet.clock.advance(1)
        await fleet.master.alert_parts.evaluator.run_once(fleet.clock.now())
    fleet.master.lead.end_term()
    await fleet.master.alert_parts.notifier.run_once(fleet.clock.now())
    assert fleet.service.arrived == []
    fleet.master.lead.is_unled = True
    await fleet.master.alert_parts.notifier.run_once(fleet.clock.now())
    assert fleet.service.heard() == [("firing", "broker_away")]
