"""The built-in rules: consistent by themselves, with the thresholds of the settings."""

from __future__ import annotations

import pytest

from crawlfleet.scheduling.alerts.rule_changes import make_rule
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS, default_rules, scope_applies


def test_every_default_rule_is_one_that_a_person_could_make() -> None:
    defaults = default_rules()
    assert list(defaults) == list(RULE_KINDS)
    for name, rule in defaults.items():
        assert make_rule(name, {}, defaults) == rule


def test_all_kinds_of_the_design_exist() -> None:
    assert set(RULE_KINDS) == {
        *("failure_rate", "queue_size", "oldest_wait", "avg_duration", "p95_duration", "node_down", "cluster_down"),
        *("host_blocked", "dead_letters", "schedule_missed", "no_results", "disk_low", "store_slow", "broker_away"),
        *("no_leader", "tasks_stuck", "quota_spent", "certificate", "channel_failing", "version_mixed"),
    }


def test_thresholds_of_the_settings_become_defaults_with_their_clear_value() -> None:
    rules = default_rules({"failure_rate": 0.5, "queue_size": 10})
    assert (rules["failure_rate"].threshold, rules["failure_rate"].clear) == (0.5, 0.4)
    assert (rules["queue_size"].threshold, rules["queue_size"].clear) == (10, 8)
    assert rules["avg_duration"].threshold == 300


@pytest.mark.parametrize(
    ("rule_scope", "scope", "applies"),
    [
        ("*", "*", True),
        ("*", "project:shop", False),
        ("project", "project:shop", True),
        ("project", "type:shop", False),
        ("project:shop", "project:shop", True),
        ("project:shop", "project:other", False),
    ],
)
def test_a_rule_applies_to_its_scope_or_to_all_of_a_kind(rule_scope: str, scope: str, applies: bool) -> None:
    assert scope_applies(rule_scope, scope) is applies
