import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.node import Measurement
from crawlfleet.model.status import Health
from crawlfleet.scheduling.nodes.health import HealthState, Thresholds, next_health
from crawlfleet.scheduling.nodes.node_faults import NO_FAULTS, NodeFaults

SETTINGS = settings(max_examples=60, derandomize=True, database=None)
THRESHOLDS = Thresholds()
Sample = tuple[float, Measurement, NodeFaults]


def history(samples: list[Sample], begin: Health = Health.UNKNOWN) -> list[HealthState]:
    state, states = HealthState(status=begin), []
    for at, measurement, faults in samples:
        state = next_health(state, measurement, at, THRESHOLDS, faults)
        states.append(state)
    return states


def changes(states: list[HealthState]) -> int:
    return sum(before.status is not after.status for before, after in pairwise(states))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("every_s", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("limit", [0.90, 0.95])
def test_noise_around_a_limit_does_not_make_a_node_flap(seed: int, every_s: float, limit: float) -> None:
    rng = random.Random(seed)
    noise = [(step * every_s, Measurement(memory=limit + rng.uniform(-0.04, 0.04)), NO_FAULTS) for step in range(400)]
    # Once up to each of degraded and unhealthy, and never back.
    assert changes(history(noise, Health.HEALTHY)) <= 2


measurements = st.builds(
    Measurement,
    cpu=st.floats(0, 1),
    memory=st.floats(0, 1),
    error_rate=st.floats(0, 1),
    start_latency_s=st.floats(0, 20),
)
faults = st.builds(NodeFaults, crash_rate=st.floats(0, 1), network_rate=st.floats(0, 1), is_silent=st.booleans())
timelines = st.lists(st.tuples(st.floats(0.01, 60.0), measurements, faults), min_size=2, max_size=80)


def dated(timeline: list[Sample]) -> list[Sample]:
    at, samples = 0.0, []
    for gap_s, measurement, faults in timeline:
        at += gap_s
        samples.append((at, measurement, faults))
    return samples


@SETTINGS
@given(timelines)
def test_changes_are_never_closer_than_the_rules_say(timeline: list[Sample]) -> None:
    states = history(dated(timeline))
    for before, after in pairwise(states):
        if before.status is after.status or before.status is Health.UNKNOWN:
            continue
        assert before.changed_at is not None
        assert after.changed_at is not None
        least_s = THRESHOLDS.hold_s if after.status > before.status else THRESHOLDS.recover_s
        since = before.worse_since if after.status > before.status else before.better_since
        assert since is not None
        assert since >= before.changed_at
        assert after.changed_at - since >= least_s


@SETTINGS
@given(timelines)
def test_averages_stay_within_what_was_measured(timeline: list[Sample]) -> None:
    samples = dated(timeline)
    for state in history(samples):
        assert 0.0 <= state.averages["memory"] <= 1.0
        assert (state.status <= Health.HEALTHY) == (not state.details)


@SETTINGS
@given(timelines)
def test_everybody_recovers_when_all_is_calm(timeline: list[Sample]) -> None:
    samples = dated(timeline)
    end = samples[-1][0]
    calm = [(end + step, Measurement(memory=0.3), NO_FAULTS) for step in range(1, 101)]
    assert history(samples + calm)[-1].status is Health.HEALTHY
