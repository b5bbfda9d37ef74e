"""Alerts about projects that used up their day."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawlfleet.model.daily_quota import Amounts, SliceRequest
from crawlfleet.model.project import Quotas
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet

pytestmark = pytest.mark.integration


async def test_a_spent_quota_is_told_and_recovers_with_the_next_day(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("quota_spent", threshold=0.6)
    quotas = Quotas(pages_per_day=50)
    await fleet.master.projects.change_project("shop", lambda project: replace(project, quotas=quotas))
    node = await fleet.node(lease_ms=600_000)
    await fleet.tasks(1, project_id="shop")
    await fleet.dispatch()
    await node.sync()
    execution, assignment = next(iter(node.held.items()))
    for number in range(1, 10):
        request = SliceRequest(node.id, assignment.task, execution, number, Amounts(50, 0))
        await store.grant_slices([request], fleet.clock.now())
    await fleet.watch(30, 2)
    [notice] = fleet.service.notices()
    assert (notice.rule, notice.scope, notice.value) == ("quota_spent", "project:shop", 0.64)
    assert notice.why == "Project shop used 32 of 50 pages of today."
    fleet.clock.advance(86_400)
    await fleet.watch(60, 5)
    heard = [state for state, rule in fleet.service.heard() if rule == "quota_spent"]
    assert heard[0] == "firing"
    assert heard[-1] == "recovered"
