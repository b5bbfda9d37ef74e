import math
import random

import pytest

from crawlfleet.model.ids import IdFactory, made_at
from crawlfleet.scheduling.order import Ageing, LaneHeap, LaneView, effective_priority, lanes_in_order

NOW = 1_800_000_000_000
MINUTE = 60_000
AGEING = Ageing()


def id_made(at: int, boot: int = 1) -> int:
    return IdFactory(boot, lambda: at).one()


def view(lane: int, priority: int, waited_ms: int = 0, size: int = 1) -> LaneView:
    return LaneView(lane, priority, id_made(NOW - waited_ms, boot=lane), size)


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


def test_a_head_from_the_future_has_waited_no_time() -> None:
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
    nine, ten = view(1, 9), view(2, 10)
    assert lanes_in_order([nine, ten], NOW, AGEING) == [ten, nine]


def test_alike_lanes_are_first_in_first_out() -> None:
    younger, older = view(1, 5, waited_ms=10), view(2, 5, waited_ms=20)
    assert lanes_in_order([younger, older], NOW, AGEING) == [older, younger]


def test_the_lowest_priority_overtakes_fresh_tens_in_the_end() -> None:
    old_one, fresh_ten = view(1, 1, waited_ms=9 * MINUTE), view(2, 10)
    assert lanes_in_order([fresh_ten, old_one], NOW, AGEING) == [old_one, fresh_ten]
    waited_less = view(1, 1, waited_ms=9 * MINUTE - 1)
    assert lanes_in_order([waited_less, fresh_ten], NOW, AGEING) == [fresh_ten, waited_less]


def test_an_empty_lane_has_no_turn() -> None:
    deep_but_empty = LaneView(1, 10, 0, 0)
    full = view(2, 1)
    assert lanes_in_order([deep_but_empty, full], NOW, AGEING) == [full]
    heap = LaneHeap(NOW, AGEING)
    heap.push(deep_but_empty)
    assert len(heap) == 0
    with pytest.raises(IndexError):
        heap.pop()


def test_a_lane_comes_back_with_its_new_head() -> None:
    tasks = {1: [id_made(NOW - 30), id_made(NOW - 10)], 2: [id_made(NOW - 20)]}
    heap = LaneHeap(NOW, AGEING, [LaneView(lane, 5, heads[0], len(heads)) for lane, heads in tasks.items()])
    served = []
    while heap:
        lane = heap.pop().lane
        served.append(tasks[lane].pop(0))
        heap.push(LaneView(lane, 5, tasks[lane][0] if tasks[lane] else 0, len(tasks[lane])))
    assert [NOW - made_at(task) for task in served] == [30, 20, 10]


def test_order_does_not_depend_on_how_the_lanes_came_in() -> None:
    views = [view(lane, lane % 10 + 1, waited_ms=lane * 7_919 % 600_000) for lane in range(1, 40)]
    expected = lanes_in_order(views, NOW, AGEING)
    shuffled = random.Random(7).sample(views, len(views))
    assert lanes_in_order(shuffled, NOW, AGEING) == expected
    keys = [(-effective_priority(v.priority, made_at(v.head), NOW, AGEING), v.head) for v in expected]
    assert keys == sorted(keys)
