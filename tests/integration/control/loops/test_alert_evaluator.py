"""The evaluator: in time, bounded, and through a change of leaders."""

from __future__ import annotations

import pytest

from crawlfleet.model.alerts.alert import AlertStatus
from crawlfleet.model.ids import node_text
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet
from tests.integration.control.alerts.samplers.test_nodes import lose_nodes

pytestmark = pytest.mark.integration


async def test_a_receiver_has_it_within_15_seconds_after_the_span_of_the_rule(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("broker_away", for_s=7)
    began = fleet.clock.now()
    fleet.broker_reason = "refused"
    evaluator = fleet.master.alert_parts.evaluator
    while not fleet.service.arrived:
        await fleet.evaluate()
        # As the loop waits by itself: for its pause, or shorter when something is due.
        due_at = evaluator.next_at
        pause_s = evaluator.pause_s if due_at is None else min(evaluator.pause_s, (due_at - fleet.clock.now()) / 1000)
        fleet.clock.advance(max(0.05, pause_s))
    assert fleet.clock.now() - began <= (7 + 15) * 1000


async def test_a_new_leader_keeps_what_fires_and_begins_what_is_pending_again(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("mine", kind="broker_away", for_s=0)
    fleet.broker_reason = "refused"
    await fleet.watch(40)
    assert fleet.service.heard() == [("firing", "mine")]
    broker = fleet.new_broker()
    fleet.broker_reason = "refused"
    await fleet.start(broker=broker, leads=False)
    fleet.broker_reason = "refused"
    await fleet.lead()
    await fleet.watch(40)
    states = await fleet.states()
    assert states["mine", "*"].status is AlertStatus.FIRING
    assert states["broker_away", "*"].status is AlertStatus.PENDING
    assert fleet.service.heard() == [("firing", "mine")]
    await fleet.watch(40)
    assert fleet.service.heard() == [("firing", "mine"), ("firing", "broker_away")]


async def test_many_nodes_lost_at_once_make_at_most_two_messages(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    alive = await fleet.node(lease_ms=3_600_000)
    for _ in range(60):
        await fleet.node()
    await lose_nodes(fleet, [alive])
    await fleet.watch(120, 2)
    [notice] = fleet.service.notices()
    assert (notice.rule, notice.count, notice.scope) == ("node_down", 60, "node")
    assert node_text(alive.id) not in {item.scope for item in notice.items}


async def test_old_notices_are_removed(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("broker_away", for_s=0)
    fleet.broker_reason = "refused"
    await fleet.watch(12)
    fleet.broker_reason = None
    await fleet.watch(400, 10)
    assert len(await store.notice_page(10)) == 2
    fleet.clock.advance(31 * 86_400)
    await fleet.watch(2)
    assert await store.notice_page(10) == []


async def test_a_quiet_installation_writes_nothing(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.node(lease_ms=3_600_000)
    await fleet.watch(4)
    before = await fleet.dump()
    await fleet.watch(20)
    assert await fleet.dump() == before
