"""When a failed execution is tried again."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.execution import Failure
from crawlfleet.model.status import ErrorClass
from crawlfleet.model.task import RetryPolicy
from crawlfleet.scheduling.tasks.retry import RULES, backoff_ms, next_attempt_at

NOW = 1_767_225_600_000

policies = st.builds(RetryPolicy, st.integers(0, 100), st.floats(0, 86_400), st.floats(0, 7 * 86_400))
failures = st.builds(Failure, st.sampled_from(ErrorClass), st.just("it broke"), st.booleans())
rngs = st.integers().map(Random)


def test_every_class_of_error_has_its_rule() -> None:
    assert set(RULES) == set(ErrorClass)


@pytest.mark.parametrize("error", [ErrorClass.INPUT, ErrorClass.POLICY])
def test_what_a_retry_cannot_help_is_not_retried(error: ErrorClass) -> None:
    assert next_attempt_at(RetryPolicy(), Failure(error, ""), 0, NOW, Random(1)) is None


@pytest.mark.parametrize("error", list(ErrorClass))
def test_a_permanent_error_is_never_retried(error: ErrorClass) -> None:
    assert next_attempt_at(RetryPolicy(), Failure(error, "", is_permanent=True), 0, NOW, Random(1)) is None


def test_a_parse_error_is_tried_once_more_only() -> None:
    failure = Failure(ErrorClass.PARSE, "")
    assert next_attempt_at(RetryPolicy(5), failure, 0, NOW, Random(1)) is not None
    assert next_attempt_at(RetryPolicy(5), failure, 1, NOW, Random(1)) is None
    assert next_attempt_at(RetryPolicy(0), failure, 0, NOW, Random(1)) is None


def test_a_site_that_blocks_is_asked_less_often() -> None:
    policy = RetryPolicy(3, 10.0, 600.0)
    network = next_attempt_at(policy, Failure(ErrorClass.NETWORK, ""), 0, NOW, Random(1))
    blocked = next_attempt_at(policy, Failure(ErrorClass.BLOCKED, ""), 0, NOW, Random(1))
    assert network is not None
    assert blocked is not None
    assert blocked - NOW == pytest.approx(5 * (network - NOW), abs=5)


def test_the_delay_doubles_up_to_its_cap() -> None:
    policy = RetryPolicy(10, 1.0, 10.0)
    longest = [max(backoff_ms(policy, n, Random(seed)) for seed in range(200)) for n in range(6)]
    assert longest == pytest.approx([1_000, 2_000, 4_000, 8_000, 10_000, 10_000], rel=0.05)


def test_many_that_fail_at_once_do_not_come_back_at_once() -> None:
    policy, rng = RetryPolicy(3, 60.0, 600.0), Random(1)
    delays = [backoff_ms(policy, 0, rng) for _ in range(10_000)]
    assert min(delays) >= 30_000
    assert max(delays) <= 60_000
    by_second = [0] * 61
    for delay in delays:
        by_second[delay // 1_000] += 1
    assert max(by_second) < 2 * 10_000 / 30


@given(policies, failures, st.integers(0, 200), rngs)
def test_no_retry_beyond_the_limit(policy: RetryPolicy, failure: Failure, retries: int, rng: Random) -> None:
    due_at = next_attempt_at(policy, failure, retries, NOW, rng)
    if retries >= policy.max_retries:
        assert due_at is None


@given(policies, failures, st.integers(0, 200), rngs)
def test_a_retry_lies_ahead_and_within_the_cap(
    policy: RetryPolicy, failure: Failure, retries: int, rng: Random
) -> None:
    due_at = next_attempt_at(policy, failure, retries, NOW, rng)
    if due_at is not None:
        assert NOW <= due_at <= NOW + round(policy.max_delay_s * 1_000)


@given(policies, st.integers(0, 10**6), rngs)
def test_no_number_of_retries_overflows_the_delay(policy: RetryPolicy, retries: int, rng: Random) -> None:
    assert 0 <= backoff_ms(policy, retries, rng, factor=5.0) <= round(policy.max_delay_s * 1_000)


@given(policies, failures, st.integers(0, 10), st.integers())
def test_the_same_chance_gives_the_same_time(policy: RetryPolicy, failure: Failure, retries: int, seed: int) -> None:
    times = {next_attempt_at(policy, failure, retries, NOW, Random(seed)) for _ in range(2)}
    assert len(times) == 1
