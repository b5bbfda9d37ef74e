"""A rule previewed over stored history."""

from __future__ import annotations

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet
from tests.integration.control.alerts.samplers.test_figures import run_tasks

pytestmark = pytest.mark.integration


async def test_a_preview_says_when_a_rule_would_have_fired(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store)
    node = await fleet.node(slots=100, lease_ms=3_600_000)
    began = fleet.clock.now()
    for good, bad in ((30, 0), (20, 10), (20, 10), (80, 0), (80, 0), (80, 0), (80, 0), (80, 0)):
        await run_tasks(fleet, node, good, bad, seconds=55)
        fleet.clock.advance(5)
    previews = fleet.master.alert_parts.previews
    preview = await previews.preview_rule("failure_rate", {"for_s": 0, "keep_s": 0}, None)
    [alert] = preview.alerts
    assert began < alert.fired_at < began + 4 * 60_000
    assert alert.recovered_at is not None
    assert alert.peak == pytest.approx(20 / 90, abs=0.01)
    assert preview.points >= 8
    assert (await previews.preview_rule("failure_rate", {"threshold": 0.9}, None)).alerts == []
    assert (await previews.preview_rule("failure_rate", {}, "project:nobody")).points == 0


@pytest.mark.parametrize(
    ("name", "values", "scope", "field"),
    [
        ("node_down", {}, None, "name"),
        ("failure_rate", {"scope": "project"}, None, "scope"),
        ("failure_rate", {"clear": 1}, None, "clear"),
        ("mine", {}, None, "kind"),
        ("failure_rate", {}, "planet:mars", "series"),
    ],
)
async def test_what_has_no_history_is_refused(
    store: SqlStore, name: str, values: dict[str, object], scope: str | None, field: str
) -> None:
    fleet = await AlertFleet.make(store)
    with pytest.raises(InvalidInput) as refusal:
        await fleet.master.alert_parts.previews.preview_rule(name, values, scope)
    assert refusal.value.field == field
