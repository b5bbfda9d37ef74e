"""A pass over all alerts: what is written, what is forgotten, and the limit of one pass."""

from __future__ import annotations

from dataclasses import replace

from crawlfleet.model.alerts.alert import AlertGroup, AlertSample, AlertState, AlertStatus, Announced
from crawlfleet.model.notice import NoticeState
from crawlfleet.scheduling.alerts.evaluation import (
    MAX_CHANGES,
    AlertPass,
    Measurements,
    apply_pass,
    evaluate_alerts,
    next_alert_deadline,
)
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

RULES = default_rules()
T0 = 1_000_000


def down(*scopes: str) -> dict[str, Measurements]:
    return {"node_down": Measurements({scope: AlertSample(scope, 1.0) for scope in scopes})}


def evaluate(measured: dict[str, Measurements], *states: AlertState, term: int = 1, now: int = T0) -> AlertPass:
    return evaluate_alerts(RULES, measured, {state.key: state for state in states}, {}, (), term, now)


def test_a_quiet_installation_writes_nothing() -> None:
    quiet = {"node_down": Measurements({"node:a": AlertSample("node:a", 0.0)})}
    assert evaluate(quiet).is_empty


def test_a_crossed_threshold_is_written_once() -> None:
    first = evaluate(down("node:a"))
    assert [state.status for state in first.states.values()] == [AlertStatus.PENDING]
    states, groups = apply_pass({}, {}, first)
    again = evaluate_alerts(RULES, down("node:a"), states, groups, (), 1, T0 + 2_000)
    assert again.is_empty


def test_a_rule_that_was_not_measured_keeps_its_states() -> None:
    state = AlertState("node_down", "node:a", AlertStatus.FIRING, T0, T0, announced=Announced.FIRING, term=1)
    assert evaluate({}, state).is_empty


def test_a_scope_that_is_gone_recovers() -> None:
    state = AlertState("node_down", "node:a", AlertStatus.FIRING, T0, T0, announced=Announced.FIRING, term=1)
    outcome = evaluate(down(), state)
    assert outcome.states[state.key].status is AlertStatus.OK
    assert outcome.states[state.key].announced is Announced.FIRING


def test_a_rule_that_is_turned_off_recovers_with_a_notice_and_a_removed_one_without() -> None:
    state = AlertState("node_down", "node:a", AlertStatus.FIRING, T0, T0, announced=Announced.FIRING, term=1)
    rules = {**RULES, "node_down": replace(RULES["node_down"], is_enabled=False)}
    first = evaluate_alerts(rules, {}, {state.key: state}, {}, (), 1, T0)
    states, groups = apply_pass({state.key: state}, {}, first)
    [message] = evaluate_alerts(rules, {}, states, groups, (), 1, T0 + 20_000).messages
    assert (message.state, message.items[0].alert.why) == (NoticeState.RECOVERED, "the rule was turned off")
    own = replace(state, rule="mine")
    outcome = evaluate({}, own)
    assert (outcome.forgotten, outcome.messages) == ([own.key], [])


def test_a_new_leader_writes_the_states_as_its_own() -> None:
    state = AlertState("node_down", "node:a", AlertStatus.PENDING, T0 - 29_000, term=1)
    outcome = evaluate(down("node:a"), state, term=2)
    assert (outcome.states[state.key].since_at, outcome.states[state.key].term) == (T0, 2)


def test_one_pass_writes_a_bounded_number_of_states() -> None:
    scopes = [f"node:{number}" for number in range(MAX_CHANGES + 500)]
    first = evaluate(down(*scopes))
    assert (len(first.states), first.is_cut) == (MAX_CHANGES, True)
    states, groups = apply_pass({}, {}, first)
    second = evaluate_alerts(RULES, down(*scopes), states, groups, (), 1, T0 + 1_000)
    assert (len(second.states), second.is_cut) == (500, False)


def test_what_is_over_is_forgotten() -> None:
    state = AlertState("node_down", "node:a", AlertStatus.OK, T0, T0, term=1, changes=(T0 - 3_600_000,))
    assert evaluate(down(), state).forgotten == [state.key]


def test_the_next_deadline_is_the_earliest_of_spans_and_groups() -> None:
    pending = AlertState("node_down", "node:a", AlertStatus.PENDING, T0)
    recovering = AlertState("node_down", "node:b", AlertStatus.RECOVERING, T0)
    group = AlertGroup("node_down", "node", due_at=T0 + 5_000)
    assert next_alert_deadline(RULES, [], []) is None
    assert next_alert_deadline(RULES, [pending], []) == T0 + 30_000
    assert next_alert_deadline(RULES, [pending, recovering], []) == T0 + 10_000
    assert next_alert_deadline(RULES, [pending, recovering], [group]) == T0 + 5_000
    assert next_alert_deadline({}, [pending], []) is None


def test_scopes_that_are_gone_recover_though_not_all_were_measured() -> None:
    state = AlertState("node_down", "node:a", AlertStatus.FIRING, T0, T0, announced=Announced.FIRING, term=1)
    assert evaluate({"node_down": Measurements({}, is_complete=False)}, state).is_empty
    gone = {"node_down": Measurements({}, is_complete=False, gone=frozenset({"node:a"}))}
    assert evaluate(gone, state).states[state.key].status is AlertStatus.OK
