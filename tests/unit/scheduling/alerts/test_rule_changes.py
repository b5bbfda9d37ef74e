"""Changes of rules by people: bad values are refused with the field named."""

from __future__ import annotations

from typing import Any

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.alerts.alert import AlertHours
from crawlfleet.model.notice import Severity
from crawlfleet.scheduling.alerts.rule_changes import check_matchers, check_silence_span, make_rule
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

DEFAULTS = default_rules()


def test_a_new_threshold_takes_its_clear_value_along() -> None:
    rule = make_rule("queue_size", {"threshold": 50}, DEFAULTS)
    assert (rule.threshold, rule.clear) == (50, 40)
    assert make_rule("disk_low", {"threshold": 0.2}, DEFAULTS).clear == pytest.approx(0.3)


def test_a_rule_of_ones_own_has_the_defaults_of_its_kind() -> None:
    values = {"kind": "failure_rate", "scope": "project:shop", "severity": "critical", "channels": ["ops", "ops"]}
    rule = make_rule("shop_failures", values, DEFAULTS)
    assert (rule.name, rule.kind, rule.scope) == ("shop_failures", "failure_rate", "project:shop")
    assert (rule.severity, rule.channels, rule.least_samples) == (Severity.CRITICAL, ("ops",), 20)


def test_hours_are_read_with_days_and_zone() -> None:
    hours = {"from": "22:00", "until": "06:30", "days": [5, 1], "time_zone": "Asia/Shanghai"}
    assert make_rule("node_down", {"hours": hours}, DEFAULTS).hours == AlertHours(1320, 390, (1, 5), "Asia/Shanghai")
    assert make_rule("node_down", {"hours": None}, DEFAULTS).hours is None


@pytest.mark.parametrize(
    ("name", "values", "field"),
    [
        ("failure_rate", {"threshold": 0.1, "clear": 0.2}, "clear"),
        ("disk_low", {"threshold": 0.1, "clear": 0.05}, "clear"),
        ("failure_rate", {"threshold": 0}, "threshold"),
        ("failure_rate", {"clear": 0}, "clear"),
        ("failure_rate", {"threshold": float("nan")}, "threshold"),
        ("failure_rate", {"threshold": "much"}, "threshold"),
        ("failure_rate", {"threshold": True}, "threshold"),
        ("node_down", {"threshold": 2}, "threshold"),
        ("failure_rate", {"scope": "planet"}, "scope"),
        ("failure_rate", {"scope": "project:"}, "scope"),
        ("failure_rate", {"scope": "*:x"}, "scope"),
        ("node_down", {"scope": "*"}, "scope"),
        ("failure_rate", {"scope": "project:" + "x" * 300}, "scope"),
        ("failure_rate", {"for_s": -1}, "for_s"),
        ("failure_rate", {"for_s": 10**9}, "for_s"),
        ("failure_rate", {"severity": "panic"}, "severity"),
        ("failure_rate", {"channels": "ops"}, "channels"),
        ("failure_rate", {"kind": "queue_size"}, "kind"),
        ("mine", {}, "kind"),
        ("mine", {"kind": "weather"}, "kind"),
        ("Not A Name", {"kind": "failure_rate"}, "name"),
        ("node_down", {"hours": {"from": "8", "until": "20:00"}}, "hours.from"),
        ("node_down", {"hours": {"from": "08:00", "until": "25:00"}}, "hours.until"),
        ("node_down", {"hours": {"from": "08:00", "until": "20:00", "time_zone": "Mars/Base"}}, "hours.time_zone"),
        ("node_down", {"hours": {"from": "08:00", "until": "20:00", "days": [0]}}, "hours.days"),
        ("node_down", {"hours": {"from": "08:00", "until": "20:00", "day": 1}}, "hours"),
    ],
)
def test_a_bad_value_is_refused_with_its_field(name: str, values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        make_rule(name, values, DEFAULTS)
    assert refusal.value.field == field


@pytest.mark.parametrize("matchers", [{}, {"color": "red"}, {"rule": ""}, {"rule": "x" * 300}, {"scope": "a\nb"}])
def test_bad_matchers_are_refused(matchers: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="matchers"):
        check_matchers(matchers)


@pytest.mark.parametrize(("starts_at", "until_at"), [(0, 50), (200, 150), (0, 400 * 86_400_000)])
def test_a_silence_ends_in_the_future_and_within_a_year(starts_at: int, until_at: int) -> None:
    with pytest.raises(InvalidInput, match="until_at"):
        check_silence_span(starts_at, until_at, now=100)
