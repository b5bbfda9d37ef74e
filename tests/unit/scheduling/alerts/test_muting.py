"""Why no notice of an alert is sent: inhibition, drains, silences, hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from crawlfleet.model.alerts.alert import AlertHours, AlertState, AlertStatus, Silence
from crawlfleet.scheduling.alerts.muting import ActiveAlerts, is_within_hours, mute_reason
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

RULES = default_rules()
NODE = AlertState("node_down", "node:a", AlertStatus.FIRING, parent="cluster:eu")
NOBODY = ActiveAlerts([], RULES)


def reason(state: AlertState, *active: AlertState, silences: tuple[Silence, ...] = (), now: int = 0) -> str:
    return mute_reason(state, RULES[state.rule], ActiveAlerts(active, RULES), silences, now)


def test_a_dead_cluster_mutes_its_own_nodes_only() -> None:
    cluster = AlertState("cluster_down", "cluster:eu", AlertStatus.FIRING)
    assert reason(NODE, NODE, cluster) == "cluster_down fires"
    assert reason(replace(NODE, parent="cluster:us"), NODE, cluster) == ""
    assert reason(NODE, replace(cluster, status=AlertStatus.PENDING)) == ""
    assert reason(cluster, NODE, cluster) == ""


def test_without_a_leader_everything_else_is_muted() -> None:
    leader = AlertState("no_leader", "*", AlertStatus.FIRING)
    assert reason(NODE, leader) == "no_leader fires"
    assert reason(leader, leader) == ""


def test_a_drained_node_is_muted_by_its_sample() -> None:
    assert reason(replace(NODE, mute="the node is in maintenance")) == "the node is in maintenance"


@pytest.mark.parametrize(
    ("matchers", "is_muted"),
    [
        ({"rule": "node_down"}, True),
        ({"rule": "node_*", "scope": "node:*"}, True),
        ({"rule": "node_down", "scope": "node:b"}, False),
        ({"severity": "warning"}, True),
        ({"severity": "critical"}, False),
        ({"parent": "cluster:eu"}, True),
    ],
)
def test_a_silence_needs_all_of_its_matchers(matchers: dict[str, str], is_muted: bool) -> None:
    silence = Silence(1, matchers, 10, 20, "moving house", "ann", 0)
    expected = "silenced by ann: moving house" if is_muted else ""
    assert reason(NODE, silences=(silence,), now=10) == expected
    assert reason(NODE, silences=(silence,), now=9) == ""
    assert reason(NODE, silences=(silence,), now=20) == ""


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("hours", "utc", "is_within"),
    [
        (AlertHours(480, 1200), "2026-11-18T08:00", True),
        (AlertHours(480, 1200), "2026-11-18T07:59", False),
        (AlertHours(480, 1200), "2026-11-18T20:00", False),
        (AlertHours(480, 1200, time_zone="Asia/Shanghai"), "2026-11-18T00:00", True),
        (AlertHours(480, 1200, (3,)), "2026-11-18T09:00", True),
        (AlertHours(480, 1200, (4,)), "2026-11-18T09:00", False),
        (AlertHours(1320, 360, (3,)), "2026-11-18T23:00", True),
        (AlertHours(1320, 360, (3,)), "2026-11-19T05:59", True),
        (AlertHours(1320, 360, (3,)), "2026-11-18T05:59", False),
        (AlertHours(1320, 360, (7,)), "2026-11-23T05:59", True),
        (AlertHours(0, 0, (3,)), "2026-11-18T12:00", True),
        (AlertHours(0, 0, (3,)), "2026-11-19T12:00", False),
    ],
)
def test_hours_follow_the_clock_of_their_zone(hours: AlertHours, utc: str, is_within: bool) -> None:
    assert is_within_hours(hours, instant(utc)) is is_within
    expected = "" if is_within else "outside the hours of the rule"
    assert mute_reason(NODE, replace(RULES["node_down"], hours=hours), NOBODY, (), instant(utc)) == expected
