"""Quotas of projects: what fits, which one is full, and who is let in."""

import pytest

from crawlfleet.model.project import OnFull, Project, Quotas, Use
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.quotas.project_quota import UNLIMITED, Allowance, QuotaViolation, SubmitQuota

PLAIN = Requirement("echo")
HALF = Requirement("echo", resources=(("cpu", 0.5), ("memory_mb", 256.0)))
LARGE = Requirement("echo", resources=(("cpu", 8.0),))


def allowance(use: Use | None = None, **limits: float) -> Allowance:
    return Allowance(Project("p", quotas=Quotas(**limits)), use or Use())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "use", "asked", "fits"),
    [
        ({}, Use(100), PLAIN, UNLIMITED),
        ({"running": 3}, Use(1), PLAIN, 2),
        ({"running": 3}, Use(3), PLAIN, 0),
        ({"running": 3}, Use(7), PLAIN, 0),
        ({"running": 0}, Use(), PLAIN, 0),
        ({"cpu": 2.0}, Use(9, {"cpu": 2.0}), PLAIN, UNLIMITED),
        ({"cpu": 2.0}, Use(1, {"cpu": 0.75}), HALF, 2),
        ({"cpu": 2.0}, Use(), LARGE, 0),
        ({"memory_mb": 600.0, "cpu": 99.0, "running": 9}, Use(), HALF, 2),
    ],
)
def test_as_many_as_fit(limits: dict[str, float], use: Use, asked: Requirement, fits: int) -> None:
    assert allowance(use, **limits).count_allowed(asked) == fits
    assert (allowance(use, **limits).violation(asked) is None) == (fits > 0)


def test_what_is_taken_counts_and_what_was_given_is_not_touched() -> None:
    use = Use(1, {"cpu": 0.5})
    left = allowance(use, running=4, cpu=2.0)
    left.deduct(HALF, 2)
    assert left.count_allowed(HALF) == 1
    assert left.count_allowed(PLAIN) == 1
    spent = [left.is_exhausted]
    left.deduct(PLAIN, 1)
    assert [*spent, left.is_exhausted] == [False, True]
    assert use == Use(1, {"cpu": 0.5})


def test_a_full_quota_says_what_is_in_use() -> None:
    full = allowance(Use(10), running=10).violation(PLAIN)
    assert full is not None
    assert full.sentence == "quota 'running' of project p: 10 of 10 in use"
    assert full._asdict() == {"project": "p", "quota": "running", "limit": 10, "used": 10, "asked": 1}
    full = allowance(Use(2, {"cpu": 3.75}), cpu=4.0).violation(HALF)
    assert full is not None
    assert full.sentence == "quota 'cpu' of project p: 3.75 of 4 in use, and it asks for 0.5"


def test_a_task_that_asks_for_more_than_the_whole_says_so_first() -> None:
    full = allowance(Use(10), running=10, cpu=4.0).violation(LARGE)
    assert isinstance(full, QuotaViolation)
    assert full.exceeds_whole_quota
    assert full.sentence == "asks for 8 cpu, more than the whole quota 'cpu' of project p: 4"


# -- at the door


def door(waiting: int = 0, held: Use | None = None, on_full: OnFull = OnFull.WAIT, **limits: float) -> SubmitQuota:
    return SubmitQuota(Project("p", quotas=Quotas(**limits), on_full=on_full), waiting, held or Use())  # type: ignore[arg-type]


def test_the_door_counts_what_waits() -> None:
    at = door(waiting=3)
    assert at.violation([PLAIN] * 1_000) is None
    at = SubmitQuota(Project("p", quotas=Quotas(waiting=10)), 8, Use())
    assert at.violation([PLAIN] * 2) is None
    at.reserve([PLAIN] * 2)
    assert at.violation([PLAIN]) == "quota 'waiting' of project p: 10 of 10 wait, and 1 more would be above it"
    assert at.violation([]) is None


def test_what_cannot_run_waits_unless_it_is_to_be_refused() -> None:
    busy = Use(4, {"cpu": 2.0})
    assert door(0, busy, running=4, cpu=2.0).violation([HALF]) is None
    assert "quota 'running'" in str(door(0, busy, OnFull.REFUSE, running=4).violation([PLAIN]))
    assert "5 of 5 run or wait" in str(door(1, busy, OnFull.REFUSE, running=5).violation([PLAIN]))
    assert door(0, busy, OnFull.REFUSE, running=5, cpu=2.0).violation([PLAIN]) is None
    assert "quota 'cpu' of project p: 2 of 2 in use" in str(door(0, busy, OnFull.REFUSE, cpu=2.0).violation([HALF]))


def test_those_who_entered_count_for_the_next() -> None:
    at = door(0, Use(), OnFull.REFUSE, running=3, cpu=1.0)
    at.reserve([HALF])
    assert at.violation([HALF]) is None
    at.reserve([HALF])
    assert "cpu" in str(at.violation([HALF]))
    at.reserve([PLAIN])
    assert "running" in str(at.violation([PLAIN]))
