"""Which messages alerts make, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from crawlfleet.model.alerts.alert import AlertGroup, AlertRule, AlertState, AlertStatus, Announced, Silence
from crawlfleet.model.notice import NoticeState, Severity
from crawlfleet.scheduling.alerts.notice_plan import (
    GROUP_INTERVAL_MS,
    GROUP_WAIT_MS,
    REMINDER_MS,
    AlertKey,
    GroupMessage,
    is_group_forgettable,
    message_severity,
    plan_notices,
)
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

RULES = default_rules()
T0 = 1_000_000


class Desk:
    """States and groups that plans are applied to, at instants that the test gives."""

    def __init__(self, *states: AlertState, rules: dict[str, AlertRule] | None = None) -> None:
        self.states = {state.key: state for state in states}
        self.groups: dict[AlertKey, AlertGroup] = {}
        self.silences: list[Silence] = []
        self.rules = rules or RULES
        self.unreceived: set[str] = set()

    def put(self, states: Iterable[AlertState]) -> None:
        self.states.update((state.key, state) for state in states)

    def plan(self, now: int) -> list[GroupMessage]:
        plan = plan_notices(self.states.values(), self.groups, self.rules, self.silences, now, self.unreceived)
        self.states.update(plan.states)
        self.groups.update(plan.groups)
        return list(plan.messages)


def firing(scope: str = "node:a", fired_at: int = T0, **values: object) -> AlertState:
    state = AlertState("node_down", scope, AlertStatus.FIRING, fired_at, fired_at)
    return replace(state, **values)  # type: ignore[arg-type]


def summary(message: GroupMessage) -> tuple[NoticeState, list[str]]:
    return message.state, [f"{item.state} {item.alert.scope}" for item in message.items]


def test_what_fires_together_arrives_together() -> None:
    desk = Desk(firing("node:a"))
    assert desk.plan(T0) == []
    desk.put([firing("node:b", T0 + 5_000)])
    assert desk.plan(T0 + 5_000) == []
    [message] = desk.plan(T0 + GROUP_WAIT_MS)
    assert summary(message) == (NoticeState.FIRING, ["firing node:a", "firing node:b"])
    assert desk.plan(T0 + GROUP_WAIT_MS + 1) == []
    assert desk.states["node_down", "node:a"].announced is Announced.FIRING


def test_the_next_message_comes_after_the_interval_with_what_changed() -> None:
    desk = Desk(firing("node:a"), firing("node:b"))
    desk.plan(T0)
    desk.plan(T0 + GROUP_WAIT_MS)
    sent_at = T0 + GROUP_WAIT_MS
    desk.put([firing("node:c"), replace(desk.states["node_down", "node:a"], status=AlertStatus.OK)])
    assert desk.plan(sent_at + 1_000) == []
    assert desk.plan(sent_at + GROUP_INTERVAL_MS - 1) == []
    [message] = desk.plan(sent_at + GROUP_INTERVAL_MS)
    assert summary(message) == (NoticeState.FIRING, ["firing node:c", "recovered node:a"])
    assert is_group_forgettable(desk.groups["node_down", "node"], sent_at + 2 * GROUP_INTERVAL_MS)


def test_what_recovers_before_it_was_announced_makes_no_message() -> None:
    desk = Desk(firing())
    desk.plan(T0)
    desk.put([firing(status=AlertStatus.OK)])
    assert desk.plan(T0 + GROUP_WAIT_MS) == []
    assert desk.groups["node_down", "node"].due_at is None


def test_a_recovery_is_for_information() -> None:
    desk = Desk(firing(status=AlertStatus.OK, announced=Announced.FIRING))
    desk.plan(T0)
    [message] = desk.plan(T0 + GROUP_WAIT_MS)
    assert (message.state, message_severity(message)) == (NoticeState.RECOVERED, Severity.INFO)


def test_reminders_are_counted_every_four_hours() -> None:
    desk = Desk(firing(announced=Announced.FIRING, announced_at=T0))
    assert desk.plan(T0 + REMINDER_MS - 1) == []
    [first] = desk.plan(T0 + REMINDER_MS)
    assert (first.state, first.reminder) == (NoticeState.REMINDER, 1)
    assert desk.plan(T0 + REMINDER_MS + 1_000) == []
    [second] = desk.plan(T0 + 2 * REMINDER_MS)
    assert second.reminder == 2


def test_an_acknowledged_alert_is_quiet_until_it_recovers() -> None:
    acknowledged = firing(announced=Announced.FIRING, announced_at=T0, acknowledged_at=T0)
    desk = Desk(acknowledged)
    assert desk.plan(T0 + 10 * REMINDER_MS) == []
    desk.put([replace(acknowledged, status=AlertStatus.OK, acknowledged_at=None)])
    desk.plan(T0 + 10 * REMINDER_MS)
    [message] = desk.plan(T0 + 10 * REMINDER_MS + GROUP_WAIT_MS)
    assert message.state is NoticeState.RECOVERED


def test_an_alert_acknowledged_before_its_notice_sends_none() -> None:
    desk = Desk(firing(acknowledged_at=T0))
    assert desk.plan(T0) == [] == desk.plan(T0 + GROUP_WAIT_MS)
    assert desk.groups == {}


def test_after_a_silence_nothing_is_announced_again() -> None:
    desk = Desk(firing(announced=Announced.FIRING, announced_at=T0))
    desk.silences = [Silence(1, {"rule": "*"}, T0, T0 + 60_000, "work", "ann", T0)]
    desk.put([replace(desk.states["node_down", "node:a"], status=AlertStatus.OK)])
    assert desk.plan(T0 + 10_000) == []
    desk.put([replace(desk.states["node_down", "node:a"], status=AlertStatus.FIRING), firing("node:new")])
    assert desk.plan(T0 + 50_000) == []
    assert desk.plan(T0 + 60_000) == []
    [message] = desk.plan(T0 + 60_000 + GROUP_WAIT_MS)
    assert summary(message) == (NoticeState.FIRING, ["firing node:new"])


def test_a_flapping_alert_says_so_once() -> None:
    desk = Desk(firing(flapping_at=T0, announced=Announced.FIRING))
    desk.plan(T0)
    [message] = desk.plan(T0 + GROUP_WAIT_MS)
    assert summary(message) == (NoticeState.FLAPPING, ["flapping node:a"])
    desk.put([replace(desk.states["node_down", "node:a"], status=AlertStatus.OK)])
    assert desk.plan(T0 + REMINDER_MS) == []
    desk.put([replace(desk.states["node_down", "node:a"], flapping_at=None)])
    desk.plan(T0 + REMINDER_MS)
    [message] = desk.plan(T0 + REMINDER_MS + GROUP_WAIT_MS)
    assert message.state is NoticeState.RECOVERED


def test_muted_alerts_wait_for_their_turn() -> None:
    cluster = AlertState("cluster_down", "cluster:eu", AlertStatus.FIRING, T0, T0)
    desk = Desk(cluster, *(firing(f"node:{number}", parent="cluster:eu") for number in range(500)))
    assert desk.plan(T0) == []
    [message] = desk.plan(T0 + GROUP_WAIT_MS)
    assert summary(message) == (NoticeState.FIRING, ["firing cluster:eu"])
    assert desk.plan(T0 + 60_000) == []


def test_groups_of_different_rules_do_not_wait_for_each_other() -> None:
    desk = Desk(firing(), AlertState("queue_size", "*", AlertStatus.FIRING, T0, T0))
    desk.plan(T0)
    assert {message.rule.name for message in desk.plan(T0 + GROUP_WAIT_MS)} == {"node_down", "queue_size"}


def test_a_rule_that_is_gone_makes_no_message() -> None:
    desk = Desk(replace(firing(), rule="mine"))
    desk.groups["mine", "node"] = AlertGroup("mine", "node", due_at=T0)
    assert desk.plan(T0) == []
    assert desk.groups["mine", "node"].due_at is None


def test_what_fires_before_there_is_a_channel_is_announced_when_there_is_one() -> None:
    desk = Desk(firing("node:a"))
    desk.unreceived = {"node_down"}
    for after_ms in (0, GROUP_WAIT_MS, REMINDER_MS):
        assert desk.plan(T0 + after_ms) == []
    desk.unreceived = set()
    later = T0 + REMINDER_MS + 1_000
    assert desk.plan(later) == []
    [message] = desk.plan(later + GROUP_WAIT_MS)
    assert summary(message) == (NoticeState.FIRING, ["firing node:a"])
    # One that recovers before anybody heard of it says nothing.
    quiet = Desk(firing("node:b"))
    quiet.unreceived = {"node_down"}
    assert quiet.plan(T0) == []
    quiet.put([replace(firing("node:b"), status=AlertStatus.OK)])
    quiet.unreceived = set()
    assert quiet.plan(T0 + GROUP_WAIT_MS) == []
