"""The plan of faults: a function of the seed, and fair to the cluster."""

from __future__ import annotations

from itertools import pairwise

import pytest

from testkit.chaos.plan import LAST_S, FaultKind, PlannedFault, random_plan, rolling_plan

WORKERS = [f"worker-{n}" for n in range(4)]


def test_a_seed_is_a_plan() -> None:
    assert random_plan(3, 600, WORKERS) == random_plan(3, 600, WORKERS)
    assert random_plan(3, 600, WORKERS) != random_plan(4, 600, WORKERS)


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_hold_every_kind_of_fault_and_all_are_over_at_the_end(seed: int) -> None:
    plan = random_plan(seed, 600, WORKERS)
    assert {fault.kind for fault in plan} == set(FaultKind)
    assert max(fault.at_s + fault.for_s for fault in plan) <= 600 - LAST_S
    assert plan == sorted(plan, key=lambda fault: fault.at_s)


@pytest.mark.parametrize("seed", range(20))
def test_one_master_and_three_workers_are_always_left_alone(seed: int) -> None:
    plan = random_plan(seed, 600, WORKERS)
    for one in plan:
        together = [other for other in plan if other is not one and _overlap(one, other)]
        assert len(together) <= 1
        assert not [other for other in together if other.sort == one.sort]


@pytest.mark.parametrize("seed", range(20))
def test_some_faults_come_after_a_rest_so_that_recovery_is_judged(seed: int) -> None:
    plan = random_plan(seed, 600, WORKERS)
    rested = [fault for before, fault in pairwise(plan) if fault.at_s - before.at_s - before.for_s > 15]
    assert len(rested) >= 3


def test_masters_are_killed_in_turn() -> None:
    plan = rolling_plan(20, 1, ["a", "b"], 70)
    assert [(fault.at_s, fault.target) for fault in plan] == [(20, "a"), (40, "b"), (60, "a")]


def _overlap(one: PlannedFault, other: PlannedFault) -> bool:
    return one.at_s < other.at_s + other.for_s and other.at_s < one.at_s + one.for_s
