"""The state machine of an alert, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawlfleet.model.alerts.alert import AlertSample, AlertState, AlertStatus, Announced
from crawlfleet.scheduling.alerts.alert_states import (
    FLAP_QUIET_MS,
    PreviewedAlert,
    adopt_alert_state,
    drop_alert_state,
    is_forgettable,
    is_worth_writing,
    next_alert_state,
    preview_rule,
)
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

RULE = replace(default_rules()["failure_rate"], for_s=60, keep_s=30)
START = AlertState("failure_rate", "*")


def run(*steps: tuple[float, float], state: AlertState = START, count: int = 20) -> AlertState:
    for second, value in steps:
        state = next_alert_state(
            RULE, AlertSample("*", value, count, f"{value:.0%} failed"), state, round(second * 1000)
        )
    return state


def test_it_fires_after_its_span_and_recovers_after_another() -> None:
    pending = run((1, 0.5))
    assert pending.status is AlertStatus.PENDING
    assert run((60.9, 0.5), state=pending).status is AlertStatus.PENDING
    firing = run((61, 0.6), state=pending)
    assert (firing.status, firing.fired_at, firing.value, firing.why) == (AlertStatus.FIRING, 61_000, 0.6, "60% failed")
    recovering = run((100, 0.01), state=firing)
    assert recovering.status is AlertStatus.RECOVERING
    assert recovering.status.is_active
    ok = run((130, 0.01), state=recovering)
    assert (ok.status, ok.changes) == (AlertStatus.OK, (61_000, 130_000))


def test_a_pending_alert_that_is_fine_again_is_forgotten() -> None:
    assert run((1, 0.5), (30, 0.09)).status is AlertStatus.OK
    assert is_forgettable(run((1, 0.5), (30, 0.09)), 31_000)


def test_between_clear_value_and_threshold_nothing_changes_sides() -> None:
    assert run((1, 0.09), (100, 0.09)).status is AlertStatus.OK
    firing = run((1, 0.5), (61, 0.5))
    assert run((100, 0.09), (1000, 0.085), state=firing).status is AlertStatus.FIRING
    back = run((100, 0.01), (110, 0.09), state=firing)
    assert (back.status, back.fired_at) == (AlertStatus.FIRING, 61_000)


def test_too_few_samples_change_nothing() -> None:
    firing = run((1, 0.5), (61, 0.5))
    assert run((300, 0.0), state=firing, count=19) == firing
    assert next_alert_state(RULE, AlertSample("*", None), firing, 300_000) == firing


def test_without_spans_it_fires_and_recovers_at_once() -> None:
    rule = replace(RULE, for_s=0, keep_s=0)
    firing = next_alert_state(rule, AlertSample("*", 1.0, 20), START, 5)
    assert firing.status is AlertStatus.FIRING
    assert next_alert_state(rule, AlertSample("*", 0.0, 20), firing, 6).status is AlertStatus.OK


def test_a_rule_that_fires_below_its_threshold() -> None:
    rule = replace(default_rules()["disk_low"], for_s=0, keep_s=0)
    firing = next_alert_state(rule, AlertSample("disk:a", 0.09), AlertState("disk_low", "disk:a"), 1)
    assert firing.status is AlertStatus.FIRING
    assert next_alert_state(rule, AlertSample("disk:a", 0.14), firing, 2).status is AlertStatus.FIRING
    assert next_alert_state(rule, AlertSample("disk:a", 0.15), firing, 3).status is AlertStatus.OK


def test_more_than_four_changes_are_flapping_until_ten_quiet_minutes() -> None:
    rule = replace(RULE, for_s=0, keep_s=0)
    state = START
    for step in range(5):
        state = next_alert_state(rule, AlertSample("*", (step + 1) % 2, 20), state, step * 60_000)
    assert state.flapping_at == 240_000
    assert not is_forgettable(state, 240_000)
    held = next_alert_state(rule, AlertSample("*", 1, 20), state, 240_000 + FLAP_QUIET_MS - 1)
    assert held.flapping_at == 240_000
    assert next_alert_state(rule, AlertSample("*", 1, 20), state, 240_000 + FLAP_QUIET_MS).flapping_at is None


def test_changes_that_are_far_apart_are_no_flapping() -> None:
    rule = replace(RULE, for_s=0, keep_s=0)
    state = START
    for step in range(20):
        state = next_alert_state(rule, AlertSample("*", (step + 1) % 2, 20), state, step * 8 * 60_000)
        assert state.flapping_at is None


def test_a_new_leader_keeps_what_fires_and_restarts_what_is_pending() -> None:
    firing = replace(run((1, 0.5), (61, 0.5)), term=1)
    assert adopt_alert_state(firing, 2, 90_000) == replace(firing, term=2)
    pending = replace(run((1, 0.5)), term=1)
    assert adopt_alert_state(pending, 1, 50_000) == pending
    adopted = adopt_alert_state(pending, 2, 50_000)
    assert run((61, 0.5), state=adopted).status is AlertStatus.PENDING
    assert run((110, 0.5), state=adopted).status is AlertStatus.FIRING


def test_an_alert_without_scope_recovers_at_once() -> None:
    firing = run((1, 0.5), (61, 0.5))
    dropped = drop_alert_state(firing, "the project was removed", 70_000)
    assert (dropped.status, dropped.why) == (AlertStatus.OK, "the project was removed")
    assert drop_alert_state(run((1, 0.5)), "", 2).status is AlertStatus.OK
    assert drop_alert_state(START, "", 2) == START


def test_a_recovery_ends_the_acknowledgement() -> None:
    firing = replace(run((1, 0.5), (61, 0.5)), acknowledged_at=70_000, acknowledged_by="ann", acknowledged_why="known")
    ok = run((100, 0), (130, 0), state=firing)
    assert (ok.acknowledged_at, ok.acknowledged_by, ok.acknowledged_why) == (None, "", "")


def test_a_clock_set_back_only_delays() -> None:
    pending = run((1000, 0.5))
    assert run((10, 0.5), state=pending).status is AlertStatus.PENDING
    assert run((1060, 0.5), state=pending).status is AlertStatus.FIRING


def test_a_changed_value_is_written_every_half_minute() -> None:
    firing = run((1, 0.5), (61, 0.5))
    assert not is_worth_writing(firing, run((63, 0.7), state=firing))
    later = run((92, 0.7), state=firing)
    assert is_worth_writing(firing, later)
    assert later.value == 0.7


def test_what_was_announced_is_not_forgotten() -> None:
    assert not is_forgettable(replace(START, announced=Announced.FIRING), 10**9)
    assert not is_forgettable(replace(START, changes=(1,)), 2)
    assert is_forgettable(replace(START, changes=(1,)), 10**9)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_preview_says_when_it_would_have_fired(goes_on: bool) -> None:
    values = [(0, 0.0), (60, 0.5), (120, 0.7), (180, 0.3), (240, 0.5 if goes_on else 0.0), (300, 0.3 if goes_on else 0)]
    points = [(second * 1000, AlertSample("*", value, 20)) for second, value in values]
    assert preview_rule(RULE, points) == [PreviewedAlert(120_000, None if goes_on else 300_000, 0.7)]
