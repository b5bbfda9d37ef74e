"""When a failed execution is tried again: a rule per class of error, exponential back-off with jitter."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from crawlfleet.model.execution import Failure
from crawlfleet.model.instants import Instant, ms
from crawlfleet.model.status import ErrorClass
from crawlfleet.model.task import RetryPolicy


class RetryRule(NamedTuple):
    may_retry: bool = True
    delay_factor: float = 1.0
    max_retries: int | None = None
    """Cap of the error class, where it is below the task's own."""


RULES: dict[ErrorClass, RetryRule] = {
    ErrorClass.NETWORK: RetryRule(),
    ErrorClass.HTTP: RetryRule(),
    # A site that blocks is asked less often, not more.
    ErrorClass.BLOCKED: RetryRule(delay_factor=5.0),
    # The same page usually parses the same way; one more try covers a page caught half-built.
    ErrorClass.PARSE: RetryRule(max_retries=1),
    ErrorClass.INPUT: RetryRule(may_retry=False),
    ErrorClass.TIMEOUT: RetryRule(),
    ErrorClass.CRASH: RetryRule(),
    ErrorClass.POLICY: RetryRule(may_retry=False),
    ErrorClass.INTERNAL: RetryRule(),
}


def next_attempt_at(policy: RetryPolicy, failure: Failure, retries: int, now: Instant, rng: Random) -> Instant | None:
    """When to try again after `retries` retries were used; None when the task is out of them."""
    rule = RULES[failure.error]
    max_retries = policy.max_retries if rule.max_retries is None else min(policy.max_retries, rule.max_retries)
    if failure.is_permanent or not rule.may_retry or retries >= max_retries:
        return None
    return now + backoff_ms(policy, retries, rng, factor=rule.delay_factor)


def backoff_ms(policy: RetryPolicy, retries: int, rng: Random, *, factor: float = 1.0) -> int:
    # Past 2**40 the cap rules anyway; a float must not overflow before it.
    delay_s = min(policy.max_delay_s, policy.base_delay_s * factor * 2.0 ** min(retries, 40))
    return ms(delay_s * rng.uniform(0.5, 1.0))
