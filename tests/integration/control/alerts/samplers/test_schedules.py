"""Alerts about schedules: ticks that were left out, runs that gave next to nothing."""

from __future__ import annotations

import msgspec
import pytest

from crawlfleet.model.ids import schedule_text
from crawlfleet.model.schedule import Schedule
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet
from tests.integration.faults.faults_schedules import fire, new_schedule

pytestmark = pytest.mark.integration


def scope(schedule: Schedule) -> str:
    return f"schedule:{schedule_text(schedule.id)}"


async def test_ticks_that_no_leader_fired_are_told(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    schedule = await new_schedule(fleet, name="nightly", every_s=60, catch_up="skip")
    # For ten minutes no master leads; the next one leaves out what was due.
    fleet.clock.advance(601)
    await fire(fleet)
    await fleet.watch(20)
    [notice] = fleet.service.notices()
    assert (notice.rule, notice.scope) == ("schedule_missed", scope(schedule))
    assert notice.why.startswith("Schedule nightly did not run at 2026-01-01T00:09:")
    # An hour later nothing is missed any more.
    for _ in range(70):
        fleet.clock.advance(60)
        await fire(fleet)
    await fleet.watch(60, 5)
    assert fleet.service.heard()[-1] == ("recovered", "schedule_missed")


async def test_a_tick_that_is_late_counts_as_missed_until_it_fires(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    schedule = await new_schedule(fleet, every_s=3600)
    fleet.clock.advance(3_600 + 59)
    await fleet.watch(12, 6)
    assert await fleet.alert_status("schedule_missed", scope(schedule)) == "firing"
    await fire(fleet)
    await fleet.watch(60, 5)
    assert await fleet.alert_status("schedule_missed", scope(schedule)) == "ok"


async def test_a_tick_that_its_own_policy_skips_is_not_missed(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await new_schedule(fleet, every_s=60, overlap="skip")
    for _ in range(5):
        fleet.clock.advance(60)
        await fire(fleet)
    await fleet.watch(30, 5)
    assert fleet.service.arrived == []


async def run_with_items(fleet: AlertFleet, items: int) -> None:
    fleet.clock.advance(60)
    await fire(fleet)
    await fleet.dispatch()
    node = fleet.nodes[0]
    await node.sync()
    for execution in list(node.held):
        node.end(execution, metrics=msgspec.Raw(msgspec.json.encode({"items": items})))
    await node.sync()


async def test_a_run_with_far_fewer_items_than_usual_is_told(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.node(lease_ms=600_000)
    schedule = await new_schedule(fleet, name="shop", every_s=60)
    for items in (100, 110, 90, 19):
        await run_with_items(fleet, items)
    await fleet.watch(60, 5)
    [notice] = fleet.service.notices()
    assert (notice.rule, notice.scope, notice.value) == ("no_results", scope(schedule), 0.19)
    assert notice.why == "The last run of schedule shop gave 19 items; 100 are usual."
    await run_with_items(fleet, 80)
    await fleet.watch(400, 10)
    heard = [state for state, rule in fleet.service.heard() if rule == "no_results"]
    assert heard == ["firing", "recovered"]


async def test_few_runs_are_not_compared_and_a_removed_schedule_recovers(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.node(lease_ms=600_000)
    schedule = await new_schedule(fleet, every_s=60)
    for items in (100, 100, 0):
        await run_with_items(fleet, items)
    await fleet.watch(60, 5)
    assert await fleet.alert_status("no_results", scope(schedule)) == "ok"
    await run_with_items(fleet, 0)
    await fleet.watch(60, 5)
    assert await fleet.alert_status("no_results", scope(schedule)) == "firing"
    await store.remove_schedule(schedule.id, fleet.clock.now())
    await fleet.watch(30, 5)
    assert await fleet.alert_status("no_results", scope(schedule)) == "ok"
