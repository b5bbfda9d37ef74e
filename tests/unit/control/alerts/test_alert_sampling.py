"""Measuring rules: each at its pace, and one that fails does not silence the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from crawlfleet.control.alerts.alert_sampling import AlertSampling, SampleRequest
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.alerts.alert import AlertSample, AlertState, AlertStatus
from crawlfleet.ports.alert_store import AlertBook
from crawlfleet.scheduling.alerts.evaluation import Measurements
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS, default_rules
from testkit.clock import FakeClock

RULES = default_rules()


class Counter:
    def __init__(self, kinds: Sequence[str], every_s: float = 0.0, error: Exception | None = None) -> None:
        self.kinds = kinds
        self.every_s = every_s
        self.error = error
        self.requests: list[SampleRequest] = []

    async def measure(self, request: SampleRequest) -> Measurements:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return Measurements({scope: AlertSample(scope, 1.0) for scope in ("*", "queue:a", "queue:b", "project:a")})


async def test_each_rule_is_measured_at_its_pace() -> None:
    clock, quick, slow = FakeClock(), Counter(["queue_size"]), Counter(["oldest_wait"], 10.0)
    sampling = AlertSampling([quick, slow], clock)
    for _ in range(10):
        await sampling.measure(RULES, AlertBook(), clock.now())
        clock.advance(2)
    assert (len(quick.requests), len(slow.requests)) == (10, 2)
    assert sampling.kinds == {"queue_size", "oldest_wait"}


@pytest.mark.parametrize(
    ("scope", "scopes"), [("*", {"*"}), ("queue", {"queue:a", "queue:b"}), ("queue:b", {"queue:b"}), ("queue:z", set())]
)
async def test_a_rule_gets_the_samples_of_its_scope(scope: str, scopes: set[str]) -> None:
    sampling = AlertSampling([Counter(["queue_size"])], FakeClock())
    rules = {"mine": replace(RULES["queue_size"], name="mine", scope=scope)}
    measured = await sampling.measure(rules, AlertBook(), 0)
    assert set(measured["mine"].samples) == scopes


async def test_a_rule_that_is_off_is_not_measured() -> None:
    counter = Counter(["queue_size"])
    rules = {"queue_size": replace(RULES["queue_size"], is_enabled=False)}
    assert await AlertSampling([counter], FakeClock()).measure(rules, AlertBook(), 0) == {}
    assert counter.requests == []


async def test_a_sampler_that_fails_leaves_the_others() -> None:
    broken, good = Counter(["queue_size"], error=ValueError("a bug")), Counter(["oldest_wait"])
    measured = await AlertSampling([broken, good], FakeClock()).measure(RULES, AlertBook(), 0)
    assert set(measured) == {"oldest_wait"}


async def test_a_store_that_is_away_ends_the_pass() -> None:
    away = Counter(["queue_size"], error=StoreUnavailable("away"))
    with pytest.raises(StoreUnavailable):
        await AlertSampling([away], FakeClock()).measure(RULES, AlertBook(), 0)


def test_a_request_knows_where_its_rule_fires() -> None:
    firing = AlertState("queue_size", "queue:a", AlertStatus.FIRING)
    states = [firing, replace(firing, scope="queue:b", status=AlertStatus.OK), replace(firing, rule="other")]
    book = AlertBook({state.key: state for state in states})
    assert SampleRequest(RULES["queue_size"], book, 0).active_scopes == ["queue:a"]


def test_the_kinds_are_those_that_exist() -> None:
    assert {rule.kind for rule in RULES.values()} == set(RULE_KINDS)
