"""Rules in force: defaults, changes by people, resets; bad changes change nothing."""

from __future__ import annotations

import pytest

from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.ports.alert_store import RuleChange
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet

pytestmark = pytest.mark.integration


async def test_rules_are_the_built_in_ones_until_they_are_changed(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store)
    rules = fleet.master.alert_parts.rules
    assert [report.rule.name for report in await rules.list_rules()] == list(RULE_KINDS)
    await fleet.set_rule("queue_size", threshold=5)
    await fleet.set_rule("mine", kind="queue_size", scope="queue:a")
    report = await rules.get_rule("queue_size")
    assert report.change is not None
    assert (report.rule.threshold, report.rule.clear, report.change.changed_by) == (5, 4, "ann")
    assert [each.rule.name for each in await rules.list_rules()][-1] == "mine"
    await fleet.set_rule("queue_size", severity="critical")
    report = await rules.get_rule("queue_size")
    assert (report.rule.threshold, report.rule.severity) == (5, "critical")
    await fleet.set_rule("queue_size", threshold=None)
    assert (await rules.get_rule("queue_size")).rule.threshold == 1_000
    await rules.reset_rule("queue_size")
    await rules.reset_rule("queue_size")
    assert (await rules.get_rule("queue_size")).change is None
    await rules.reset_rule("mine")
    for name in ("mine", "never"):
        with pytest.raises(NotFound):
            await rules.reset_rule(name)
        with pytest.raises(NotFound):
            await rules.get_rule(name)


async def test_a_bad_change_changes_nothing(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("queue_size", threshold=5, channels=["ops"])
    for values in ({"clear": 6}, {"channels": ["ops", "nobody"]}, {"scope": "host:x"}):
        with pytest.raises(InvalidInput):
            await fleet.set_rule("queue_size", **values)
    rule = (await fleet.master.alert_parts.rules.get_rule("queue_size")).rule
    assert (rule.threshold, rule.channels, rule.scope) == (5, ("ops",), "*")


async def test_a_stored_change_that_is_no_longer_valid_is_passed_over(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store)
    await store.put_rule_change(RuleChange("queue_size", {"clear": 10**9}, 1, "a newer master"))
    await store.put_rule_change(RuleChange("odd", {"kind": "weather"}, 1, "a newer master"))
    reports = await fleet.master.alert_parts.rules.list_rules()
    assert [report.rule.name for report in reports] == list(RULE_KINDS)
    await fleet.evaluate()


async def test_a_draft_is_made_over_what_is_stored(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store)
    await fleet.set_rule("failure_rate", threshold=0.5)
    draft = await fleet.master.alert_parts.rules.draft_rule("failure_rate", {"for_s": 1})
    assert (draft.threshold, draft.for_s) == (0.5, 1)
    assert (await fleet.master.alert_parts.rules.get_rule("failure_rate")).rule.for_s == 60
