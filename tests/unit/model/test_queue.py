"""Lanes: whatever differs for the scheduler is another lane, and every master gives a lane the same id."""

import itertools

import pytest

from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement

LANE_ID = 721_542_927_286_501_221
REQUIREMENT_ID = 8_299_773_919_304_897_650


def test_whatever_differs_makes_another_lane() -> None:
    plain = Requirement("echo")
    requirements = [
        plain,
        Requirement("browser"),
        Requirement("echo", cluster="eu"),
        Requirement("echo", node_type="gpu"),
        Requirement("echo", strategy="spread"),
        Requirement("echo", target_region="eu"),
        Requirement("echo", preemptible=True),
        Requirement("echo", require_region=True),
        Requirement("echo", capabilities=(("js", 1.0),)),
        Requirement("echo", resources=(("cpu", 1.0),)),
        Requirement("echo", subjects=(("host", "shop.example"),)),
    ]
    lanes = [Lane.with_id("default", "shop", 5, requirement) for requirement in requirements]
    lanes += [
        Lane.with_id("night", "shop", 5, plain),
        Lane.with_id("default", "books", 5, plain),
        Lane.with_id("default", "shop", 6, plain),
    ]
    for lane, other in itertools.combinations(lanes, 2):
        assert lane.id != other.id


def test_a_lane_has_the_same_name_on_every_master() -> None:
    """Names stand in databases: how they are made must not change."""
    requirement = Requirement("echo", "eu", None, None, None, False, (("langs", ("de",)),), (("cpu", 0.25),))
    lane = Lane.with_id("default", "shop", 5, requirement)
    assert (lane.id, lane.requirement_id) == (LANE_ID, REQUIREMENT_ID)
    assert 0 < lane.id < 1 << 63


def test_another_priority_is_another_lane_of_the_same_class() -> None:
    lane = Lane.with_id("default", "shop", 5, Requirement("echo"))
    urgent = lane.at_priority(10)
    assert (urgent.priority, urgent.queue, urgent.project) == (10, "default", "shop")
    assert urgent.requirement == lane.requirement
    assert urgent.id != lane.id
    assert urgent.at_priority(5) == lane


@pytest.mark.parametrize(("priority", "preemptible", "highest"), [(1, False, 10), (1, True, 8), (9, True, 9)])
def test_age_lifts_what_is_preemptible_less_far(priority: int, preemptible: bool, highest: int) -> None:
    assert Lane.with_id("q", "p", priority, Requirement("echo", preemptible=preemptible)).highest_rank == highest
