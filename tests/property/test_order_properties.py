from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.ids import IdFactory, made_at
from crawlfleet.scheduling.order import Ageing, LaneHeap, LaneView, effective_priority, lanes_in_order

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True, database=None)
NOW = 1_800_000_000_000

views = st.builds(
    lambda lane, priority, age_ms, size: LaneView(lane, priority, IdFactory(lane, lambda: NOW - age_ms).one(), size),
    st.integers(1, 1_000),
    st.integers(1, 10),
    st.integers(-100_000, 1_000_000),
    st.integers(0, 3),
)


@SETTINGS
@given(st.lists(views, unique_by=lambda view: view.lane), st.floats(0.5, 600.0))
def test_order_is_by_effective_priority_then_age(lanes: list[LaneView], step_s: float) -> None:
    ageing = Ageing(step_s)
    ordered = lanes_in_order(lanes, NOW, ageing)
    assert sorted(ordered) == sorted(view for view in lanes if view.size)
    keys = [(-effective_priority(view.priority, made_at(view.head), NOW, ageing), view.head) for view in ordered]
    assert keys == sorted(keys)


@SETTINGS
@given(st.integers(1, 10), st.integers(-(10**7), 10**7), st.integers(0, 10**7))
def test_waiting_longer_never_costs_a_place(priority: int, age_ms: int, more_ms: int) -> None:
    ageing = Ageing()
    before = effective_priority(priority, NOW - age_ms, NOW, ageing)
    assert priority <= before <= effective_priority(priority, NOW - age_ms, NOW + more_ms, ageing) <= 10


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 9), st.integers(5, 50), st.sampled_from((5.0, 20.0)))
def test_the_lowest_is_served_in_time_under_an_endless_stream_of_tens(
    priority: int, backlog: int, step_s: float
) -> None:
    """More tens come in each second than are served, and still the low one gets its turn."""
    ageing = Ageing(step_s)
    clock = [NOW]
    ids = IdFactory(1, lambda: clock[0])
    tens = deque(ids.take(backlog))
    low = ids.one()
    waited_s = 0
    while True:
        heap = LaneHeap(clock[0], ageing, [LaneView(1, priority, low, 1), LaneView(10, 10, tens[0], len(tens))])
        for _ in range(5):
            if heap.pop().lane == 1:
                assert waited_s <= (10 - priority) * step_s + backlog + 1
                return
            tens.popleft()
            heap.push(LaneView(10, 10, tens[0] if tens else 0, len(tens)))
        clock[0] += 1_000
        waited_s += 1
        tens.extend(ids.take(6))
