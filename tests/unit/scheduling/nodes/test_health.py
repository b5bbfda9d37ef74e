import json
import math
from collections.abc import Iterable

import pytest

from crawlfleet.model.node import Measurement, Node, NodeDescription
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.scheduling.nodes.health import (
    TRIAL_INTERVAL_S,
    HealthState,
    Thresholds,
    is_on_trial,
    next_health,
    trial_slots,
)
from crawlfleet.scheduling.nodes.node_faults import NO_FAULTS, NodeFaults

DEFAULT = Thresholds()
CALM = Measurement(cpu=0.3, memory=0.4)
Sample = tuple[float, Measurement]


def run(
    samples: Iterable[Sample],
    thresholds: Thresholds = DEFAULT,
    state: HealthState | None = None,
    faults: NodeFaults = NO_FAULTS,
) -> HealthState:
    state = state or HealthState()
    for at, measurement in samples:
        state = next_health(state, measurement, at, thresholds, faults)
    return state


def steady(measurement: Measurement, begin: float, end: float, every_s: float = 3.0) -> list[Sample]:
    steps = int((end - begin) / every_s)
    return [(begin + step * every_s, measurement) for step in range(steps + 1)]


def test_a_calm_node_is_healthy_from_its_first_measurement() -> None:
    state = run([(5.0, CALM)])
    assert (state.status, state.details, state.changed_at) == (Health.HEALTHY, {}, 5.0)


def test_full_cpu_is_a_busy_crawlers_normal_state() -> None:
    busy = Measurement(cpu=1.0, load=64.0, memory=0.5)
    assert run(steady(busy, 0, 3_600)).status is Health.HEALTHY


@pytest.mark.parametrize(
    ("measurement", "status", "rule"),
    [
        (Measurement(memory=0.92), Health.DEGRADED, "memory"),
        (Measurement(memory=0.97), Health.UNHEALTHY, "memory"),
        (Measurement(start_latency_s=5.5), Health.DEGRADED, "start_latency_s"),
        (Measurement(start_latency_s=500.0), Health.DEGRADED, "start_latency_s"),
    ],
)
def test_each_rule_speaks_and_says_its_value_and_limit(measurement: Measurement, status: Health, rule: str) -> None:
    state = run([*steady(CALM, 0, 30), *steady(measurement, 33, 120)])
    assert state.status is status
    (reason,) = state.details["reasons"]
    assert (reason["rule"], reason["level"]) == (rule, status.word)
    assert reason["value"] > reason["limit"]
    json.dumps(state.details)


@pytest.mark.parametrize(
    ("faults", "status", "rule"),
    [
        (NodeFaults(crash_rate=0.6), Health.DEGRADED, "crash_rate"),
        (NodeFaults(crash_rate=0.9), Health.UNHEALTHY, "crash_rate"),
        (NodeFaults(network_rate=0.6), Health.DEGRADED, "network_rate"),
        (NodeFaults(network_rate=0.9), Health.UNHEALTHY, "network_rate"),
        (NodeFaults(is_silent=True), Health.UNHEALTHY, "unreachable"),
    ],
)
def test_each_kind_of_fault_speaks(faults: NodeFaults, status: Health, rule: str) -> None:
    state = run(steady(CALM, 33, 120), state=run(steady(CALM, 0, 30)), faults=faults)
    assert state.status is status
    (reason,) = state.details["reasons"]
    assert (reason["rule"], reason["level"]) == (rule, status.word)
    is_on_trial = status is Health.UNHEALTHY and rule != "unreachable"
    assert state.details["is_on_trial"] is is_on_trial


def ill_node(*rules: str, health: Health = Health.UNHEALTHY) -> Node:
    details = {"reasons": [{"rule": rule, "level": "unhealthy", "value": 1.0, "limit": 0.8} for rule in rules]}
    return Node(1, NodeDescription("n1"), NodeStatus.ONLINE, health, details)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (ill_node("crash_rate"), True),
        (ill_node("crash_rate", "network_rate"), True),
        (ill_node("crash_rate", "memory"), False),
        (ill_node("unreachable"), False),
        (ill_node(), False),
        (ill_node("crash_rate", health=Health.DEGRADED), False),
    ],
)
def test_a_node_is_on_trial_when_nothing_but_its_faults_speaks_against_it(node: Node, expected: bool) -> None:
    assert is_on_trial(node) is expected


def test_a_node_on_trial_gets_one_task_at_a_time_and_not_one_after_the_other() -> None:
    assert trial_slots(held=0, waited_s=TRIAL_INTERVAL_S) == 1
    assert trial_slots(held=0, waited_s=TRIAL_INTERVAL_S - 0.1) == 0
    # What it holds already neither frees nor costs it a slot.
    assert trial_slots(held=1, waited_s=0.0) == 1
    assert trial_slots(held=5, waited_s=1_000.0) == 1


@pytest.mark.parametrize("measurement", [Measurement(memory=0.89), Measurement(error_rate=1.0), Measurement(disk=1.0)])
def test_at_or_below_the_limit_is_healthy(measurement: Measurement) -> None:
    assert run(steady(measurement, 0, 600)).status is Health.HEALTHY


def test_the_cpu_rule_when_set_looks_at_about_a_minute() -> None:
    thresholds = Thresholds(cpu_unhealthy=0.9)
    idle = run(steady(Measurement(cpu=0.3), 0, 60), thresholds)
    at_full = Measurement(cpu=1.0)
    assert run(steady(at_full, 63, 110), thresholds, idle).status is Health.HEALTHY
    assert run(steady(at_full, 63, 150), thresholds, idle).status is Health.UNHEALTHY


def test_a_short_peak_changes_nothing() -> None:
    peak = [
        *steady(CALM, 0, 30),
        (33.0, Measurement(memory=1.0)),
        (36.0, Measurement(memory=1.0)),
        *steady(CALM, 39, 90),
    ]
    states = [run(peak[: n + 1]).status for n in range(len(peak))]
    assert set(states) == {Health.HEALTHY}


def test_worse_needs_the_condition_to_hold() -> None:
    bad = Measurement(memory=0.93)
    state = run([(0.0, CALM), (100.0, bad)])
    assert run([(109.9, bad)], state=state).status is Health.HEALTHY
    assert run([(110.0, bad)], state=state).status is Health.DEGRADED
    broken = run([(105.0, CALM), (120.0, bad), (129.0, bad)], state=state)
    assert broken.status is Health.HEALTHY


def test_a_node_that_joins_in_bad_shape_is_unknown_until_that_is_sure() -> None:
    bad = Measurement(memory=0.99)
    state = run([(0.0, bad)])
    assert state.status is Health.UNKNOWN
    assert run([(5.0, bad)], state=state).status is Health.UNKNOWN
    assert run([(10.0, bad)], state=state).status is Health.UNHEALTHY
    assert run([(60.0, CALM)], state=state).status is Health.HEALTHY


def test_better_needs_to_be_well_below_for_a_while() -> None:
    state = run(steady(Measurement(memory=0.93), 0, 60))
    assert state.status is Health.DEGRADED
    near = run(steady(Measurement(memory=0.85), 63, 600), state=state)
    assert near.status is Health.DEGRADED
    (reason,) = near.details["reasons"]
    assert (reason["rule"], reason["limit"]) == ("memory", 0.90)
    below = run([(700.0, CALM)], state=near)
    assert below.details["is_recovering"] is True
    assert below.details["reasons"]
    assert run([(729.0, CALM)], state=below).status is Health.DEGRADED
    recovered = run([(730.0, CALM)], state=below)
    assert (recovered.status, recovered.details) == (Health.HEALTHY, {})


def test_recovery_starts_again_when_it_gets_worse_meanwhile() -> None:
    state = run(steady(Measurement(memory=0.93), 0, 60))
    state = run([(100.0, CALM), (120.0, Measurement(memory=0.9)), (140.0, CALM), (169.0, CALM)], state=state)
    assert state.status is Health.DEGRADED
    assert run([(170.0, CALM)], state=state).status is Health.HEALTHY


def test_unhealthy_recovers_by_way_of_degraded_when_it_is_only_half_better() -> None:
    state = run(steady(Measurement(memory=0.99), 0, 60))
    assert state.status is Health.UNHEALTHY
    half = run(steady(Measurement(memory=0.84), 63, 200), state=state)
    assert half.status is Health.DEGRADED
    assert run(steady(CALM, 203, 300), state=half).status is Health.HEALTHY


def test_a_node_gets_worse_by_steps() -> None:
    state = run(steady(Measurement(memory=0.93), 0, 60))
    assert run(steady(Measurement(memory=0.99), 63, 120), state=state).status is Health.UNHEALTHY


def test_only_the_level_that_held_all_the_time_is_taken() -> None:
    state = run([(0.0, CALM), (100.0, Measurement(memory=0.93)), (109.0, Measurement(memory=1.0))])
    assert state.averages["memory"] > 0.95
    assert run([(110.0, Measurement(memory=1.0))], state=state).status is Health.DEGRADED


def test_only_the_level_that_was_never_passed_again_is_recovered_to() -> None:
    state = run(steady(Measurement(memory=0.99), 0, 60))
    half = Measurement(memory=0.84)
    assert run([(200.0, half), (229.0, half), (230.0, CALM)], state=state).status is Health.DEGRADED


def test_a_new_leader_does_not_forget_what_was_known() -> None:
    known = HealthState(status=Health.UNHEALTHY, details={"reasons": [{"rule": "memory"}]})
    state = run([(0.0, CALM)], state=known)
    assert state.status is Health.UNHEALTHY
    assert state.details == {"reasons": [{"rule": "memory"}], "is_recovering": True, "is_on_trial": False}
    assert run([(30.0, CALM)], state=state).status is Health.HEALTHY


def test_how_often_a_node_measures_does_not_change_its_average() -> None:
    rising = Measurement(memory=0.8)
    often = run([(0.0, Measurement()), *((step / 10, rising) for step in range(1, 101))])
    rarely = run([(0.0, Measurement()), (10.0, rising)])
    assert often.averages["memory"] == pytest.approx(rarely.averages["memory"])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_no_number_is_left_out(value: float) -> None:
    state = run([(0.0, CALM), (3.0, Measurement(memory=value)), *steady(CALM, 6, 60)])
    assert state.status is Health.HEALTHY
    assert state.averages["memory"] == pytest.approx(0.4)


def test_time_that_stands_still_or_goes_back_is_no_time() -> None:
    state = run([(50.0, CALM), (50.0, Measurement(memory=1.0)), (40.0, Measurement(memory=1.0))])
    assert state.averages["memory"] == pytest.approx(0.4)


def test_every_rule_can_be_switched_off() -> None:
    off = Thresholds(
        memory_degraded=None,
        memory_unhealthy=None,
        crash_rate_degraded=None,
        crash_rate_unhealthy=None,
        network_rate_degraded=None,
        network_rate_unhealthy=None,
        start_latency_degraded_s=None,
        unreachable_degraded=None,
        unreachable_unhealthy=None,
    )
    worst = Measurement(cpu=1.0, memory=1.0, error_rate=1.0, start_latency_s=99.0)
    faults = NodeFaults(crash_rate=1.0, network_rate=1.0, is_silent=True)
    assert run(steady(worst, 0, 600), off, faults=faults).status is Health.HEALTHY


def test_the_state_that_came_in_is_not_changed() -> None:
    before = run(steady(Measurement(memory=0.93), 0, 60))
    averages = dict(before.averages)
    next_health(before, CALM, 100.0, DEFAULT)
    assert (before.status, dict(before.averages)) == (Health.DEGRADED, averages)
