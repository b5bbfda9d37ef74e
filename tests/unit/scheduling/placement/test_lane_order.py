import math
import random
from typing import Any

import pytest

from crawlfleet.model.ids import IdFactory, made_at
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.lane_order import Ageing, LaneOrder, effective_priority

NOW = 1_800_000_000_000
MINUTE = 60_000
AGEING = Ageing()


def id_made(at: int, boot: int = 1) -> int:
    return IdFactory(boot, lambda: at).new_id()


def lane(name: str = "default", priority: int = 5, project: str = "p", **asks: Any) -> Lane:
    return Lane.with_id(name, project, priority, Requirement("echo", **asks))


def in_order(order: LaneOrder, now: int = NOW) -> list[Lane]:
    """Of one project."""
    return [ready.lane for _, projects in order.lanes_by_rank(now) for row in projects.values() for _, _, ready in row]


def ordered(*lanes: tuple[Lane, int], size: int = 1) -> LaneOrder:
    """Lanes and how long the oldest of each has waited, in milliseconds."""
    order = LaneOrder(AGEING)
    for number, (one, waited_ms) in enumerate(lanes):
        order.update_lane(one, id_made(NOW - waited_ms, boot=number), size)
    return order


@pytest.mark.parametrize(
    ("priority", "waited_ms", "effective"),
    [
        (1, 0, 1),
        (1, MINUTE - 1, 1),
        (1, MINUTE, 2),
        (5, 3 * MINUTE + 1, 8),
        (1, 8 * MINUTE, 9),
        (1, 9 * MINUTE, 10),
        (1, 10_000 * MINUTE, 10),
        (10, MINUTE, 10),
        (10, 0, 10),
    ],
)
def test_each_step_waited_lifts_by_one_up_to_the_highest(priority: int, waited_ms: int, effective: int) -> None:
    assert effective_priority(priority, NOW - waited_ms, NOW, AGEING) == effective


def test_a_task_from_the_future_has_waited_no_time() -> None:
    assert effective_priority(4, NOW + 3_600_000, NOW, AGEING) == 4


def test_the_step_is_configuration() -> None:
    assert effective_priority(1, NOW - 5_000, NOW, Ageing(step_s=2.5)) == 3
    assert effective_priority(1, NOW - 365 * 86_400_000, NOW, Ageing(step_s=math.inf)) == 1


def test_a_priority_above_the_highest_is_not_lowered_by_age() -> None:
    assert effective_priority(10, NOW - MINUTE, NOW, Ageing(highest=7)) == 10


@pytest.mark.parametrize("step_s", [0.0, -1.0, math.nan])
def test_a_step_must_take_time(step_s: float) -> None:
    with pytest.raises(ValueError, match="step_s"):
        Ageing(step_s=step_s)


def test_a_fresh_ten_goes_before_a_fresh_nine() -> None:
    nine, ten = lane(priority=9), lane(priority=10)
    assert in_order(ordered((nine, 0), (ten, 0))) == [ten, nine]


def test_alike_lanes_are_first_in_first_out() -> None:
    younger, older = lane("a"), lane("b")
    assert in_order(ordered((younger, 10), (older, 20))) == [older, younger]


def test_the_lowest_priority_overtakes_fresh_tens_in_the_end() -> None:
    one, ten = lane(priority=1), lane(priority=10)
    assert in_order(ordered((ten, 0), (one, 9 * MINUTE))) == [one, ten]
    assert in_order(ordered((ten, 0), (one, 9 * MINUTE - 1))) == [ten, one]


def test_what_can_wait_never_comes_level_with_the_most_urgent() -> None:
    can_wait, nine, fresh = (
        lane(priority=1, preemptible=True),
        lane(priority=9),
        lane("b", priority=9, preemptible=True),
    )
    order = ordered((can_wait, 99 * MINUTE), (nine, 0), (fresh, 99 * MINUTE))
    assert [(rank, len(rows["p"])) for rank, rows in order.lanes_by_rank(NOW)] == [(9, 2), (8, 1)]
    assert in_order(order)[-1] == can_wait


def test_lanes_rise_while_they_wait() -> None:
    one, ten = lane(priority=1), lane(priority=10)
    order = ordered((one, 0))
    assert [rank for rank, _ in order.lanes_by_rank(NOW)] == [1]
    order.update_lane(ten, id_made(NOW + 9 * MINUTE), 1)
    assert in_order(order, NOW + 9 * MINUTE) == [one, ten]
    assert in_order(order, NOW) == [ten, one], "a clock that was set back takes the age away again"


def test_a_lane_without_tasks_leaves() -> None:
    first, second = lane("a"), lane("b")
    order = ordered((first, 10), (second, 0))
    order.update_lane(first, 0, 0)
    order.update_lane(lane("never seen"), 0, 0)
    order.remove_lane(second.id)
    order.remove_lane(second.id)
    assert in_order(order) == []
    assert (len(order), list(order), order.classes) == (0, [], {})


def test_a_lane_stands_where_its_oldest_task_puts_it() -> None:
    first, second = lane("a"), lane("b")
    order = ordered((first, 30), (second, 20), size=2)
    order.update_lane(first, id_made(NOW - 10), 1)
    assert in_order(order) == [second, first]
    order.update_lane(second, id_made(NOW - 20, boot=1), 7)
    assert {ready.lane.queue: ready.size for ready in order} == {"a": 1, "b": 7}


def test_projects_of_a_rank_stand_beside_each_other() -> None:
    order = ordered((lane(project="p"), 0), (lane(project="q"), 5), (lane(project="q", priority=9), 0))
    assert [(rank, sorted(projects)) for rank, projects in order.lanes_by_rank(NOW)] == [(9, ["q"]), (5, ["p", "q"])]


def test_the_classes_that_wait_are_counted() -> None:
    order = ordered((lane("a"), 0), (lane("b"), 0))
    assert list(order.classes.values()) == [2]
    order.remove_lane(lane("a").id)
    assert list(order.classes.values()) == [1]
    order.clear()
    assert not order.classes
    assert not len(order)


def test_classes_that_say_what_they_are_about_are_known_as_long_as_they_wait() -> None:
    about: dict[str, Any] = {"subjects": (("host", "shop.example"),)}
    one, other, plain = lane("a", **about), lane("b", **about), lane("c")
    order = ordered((one, 0), (other, 0), (plain, 0))
    assert list(order.subject_requirements.values()) == [one.requirement]
    order.remove_lane(one.id)
    assert order.subject_requirements
    order.update_lane(other, 0, 0)
    assert not order.subject_requirements
    order.update_lane(one, id_made(NOW), 1)
    order.clear()
    assert not order.subject_requirements


def test_order_does_not_depend_on_how_the_lanes_came_in() -> None:
    lanes = [(lane(f"q{n}", n % 10 + 1), n * 7_919 % 600_000) for n in range(1, 40)]
    expected = in_order(ordered(*lanes))
    ages = {one.id: waited for one, waited in lanes}
    keys = [(-effective_priority(one.priority, NOW - ages[one.id], NOW, AGEING), -ages[one.id]) for one in expected]
    assert keys == sorted(keys)
    assert in_order(ordered(*random.Random(7).sample(lanes, len(lanes)))) == expected


def test_ids_carry_their_time() -> None:
    assert made_at(id_made(NOW)) == NOW
