"""Properties of alerts over random measurements, faults and times."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.alerts.alert import AlertGroup, AlertSample, AlertState, AlertStatus, Silence
from crawlfleet.model.notice import NoticeState
from crawlfleet.scheduling.alerts.alert_states import next_alert_state
from crawlfleet.scheduling.alerts.evaluation import Measurements, apply_pass, evaluate_alerts
from crawlfleet.scheduling.alerts.notice_plan import GROUP_INTERVAL_MS, AlertKey, GroupMessage
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

RULES = default_rules()
T0 = 10_000_000
PASS_MS = 2_000


class Watch:
    """Runs passes with given values by node, and keeps what they send."""

    def __init__(self) -> None:
        self.states: dict[AlertKey, AlertState] = {}
        self.groups: dict[AlertKey, AlertGroup] = {}
        self.silences: list[Silence] = []
        self.sent: list[tuple[int, GroupMessage]] = []

    def run_pass(self, values: dict[str, float], now: int, term: int = 1) -> None:
        samples = {scope: AlertSample(scope, value, parent="cluster:x") for scope, value in values.items()}
        measured = {"node_down": Measurements(samples)}
        outcome = evaluate_alerts(RULES, measured, self.states, self.groups, self.silences, term, now)
        self.states, self.groups = apply_pass(self.states, self.groups, outcome)
        self.sent += ((now, message) for message in outcome.messages)


@given(
    steps=st.lists(
        st.tuples(
            st.integers(1, 200_000), st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3), st.integers(1, 3)
        ),
        max_size=80,
    )
)
@settings(max_examples=100, deadline=None)
def test_at_most_one_message_per_group_and_interval_and_firing_alternates(
    steps: list[tuple[int, list[float], int]],
) -> None:
    watch, now = Watch(), T0
    for span, values, term in steps:
        now += span
        watch.run_pass({f"node:{number}": value for number, value in enumerate(values)}, now, term)
    for (first, _), (second, _) in pairwise(watch.sent):
        assert second - first >= GROUP_INTERVAL_MS
    heard: dict[str, list[NoticeState]] = defaultdict(list)
    for _, message in watch.sent:
        for item in message.items:
            heard[item.alert.scope].append(item.state)
    for states in heard.values():
        assert states[0] is not NoticeState.RECOVERED
        for before, after in pairwise(states):
            # Nothing is said twice; only reminders repeat what people know.
            assert after is NoticeState.REMINDER or before is NoticeState.REMINDER or after is not before


@given(noise=st.lists(st.floats(0.0801, 0.0999), min_size=1, max_size=50), was_firing=st.booleans())
def test_no_flap_inside_the_hysteresis(noise: list[float], was_firing: bool) -> None:
    rule = replace(RULES["failure_rate"], for_s=0, keep_s=0)
    state = AlertState(rule.name, "*")
    if was_firing:
        state = next_alert_state(rule, AlertSample("*", 0.5, 20), state, T0)
    before = state.status
    for number, value in enumerate(noise):
        state = next_alert_state(rule, AlertSample("*", value, 20), state, T0 + number * 60_000)
        assert state.status is before


@given(
    delays=st.lists(st.integers(0, 40_000), min_size=500, max_size=500),
    returns=st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_500_nodes_lost_at_once_make_at_most_two_messages(delays: list[int], returns: bool) -> None:
    watch = Watch()
    for now in range(T0, T0 + 400_000, PASS_MS * 5):
        lost = {f"node:{number}": float(now >= T0 + delay) for number, delay in enumerate(delays)}
        watch.run_pass(lost, now)
    assert 1 <= len(watch.sent) <= 2
    assert sum(len(message.items) for _, message in watch.sent) == 500
    if returns:
        for now in range(T0 + 400_000, T0 + 1_100_000, PASS_MS * 20):
            watch.run_pass({f"node:{number}": 0.0 for number in range(500)}, now)
        recoveries = [message for _, message in watch.sent if message.state is NoticeState.RECOVERED]
        assert [len(message.items) for message in recoveries] == [500]


@given(
    change_at=st.integers(0, 60_000),
    changes=st.integers(1, 4),
)
def test_a_new_leader_keeps_firing_states_and_restarts_pending_ones(change_at: int, changes: int) -> None:
    watch = Watch()
    leader_changes = {T0 + (change_at + step * 5_000) // PASS_MS * PASS_MS for step in range(changes)}
    term, last_change = 1, T0
    for now in range(T0, T0 + 120_000, PASS_MS):
        state = watch.states.get(("node_down", "node:a"))
        was_firing = state is not None and state.status is AlertStatus.FIRING
        if now in leader_changes:
            term += 1
            last_change = last_change if was_firing else now
        watch.run_pass({"node:a": 1.0}, now, term)
        after = watch.states["node_down", "node:a"]
        if was_firing:
            assert after.status is AlertStatus.FIRING
        if not was_firing and after.status is AlertStatus.FIRING:
            assert now - last_change >= RULES["node_down"].for_s * 1000
    assert [message.state for _, message in watch.sent] == [NoticeState.FIRING]


@given(
    begin=st.integers(0, 100_000),
    span=st.integers(1, 300_000),
    downs=st.lists(st.booleans(), min_size=60, max_size=60),
)
@settings(max_examples=100, deadline=None)
def test_a_silence_holds_back_everything_and_repeats_nothing(begin: int, span: int, downs: list[bool]) -> None:
    watch = Watch()
    watch.silences = [Silence(1, {"rule": "node_*"}, T0 + begin, T0 + begin + span, "work", "ann", T0)]
    for number, is_down in enumerate(downs):
        for part in range(5):
            watch.run_pass({"node:a": float(is_down)}, T0 + number * 10_000 + part * PASS_MS)
    heard = [(now, message.items[0].state) for now, message in watch.sent]
    assert not [now for now, _ in heard if T0 + begin <= now < T0 + begin + span]
    for (_, before), (_, after) in pairwise(heard):
        assert after is not before
