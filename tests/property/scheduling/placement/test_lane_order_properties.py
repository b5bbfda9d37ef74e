from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.ids import IdFactory, made_at
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.lane_order import Ageing, LaneOrder, effective_priority

SETTINGS = settings(max_examples=150, derandomize=True, database=None)
NOW = 1_800_000_000_000

puts = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.integers(-100_000, 1_000_000),
        st.integers(0, 3),
    ),
    max_size=30,
)
LANES = [Lane.with_id(f"q{n}", f"p{n % 3}", n % 10 + 1, Requirement("echo")) for n in range(13)]


@SETTINGS
@given(puts, st.floats(0.5, 600.0), st.lists(st.integers(-5_000, 400_000), max_size=3))
def test_the_order_that_is_kept_is_the_order_made_anew(
    changes: list[tuple[int, int, int]], step_s: float, looks: list[int]
) -> None:
    ageing = Ageing(step_s)
    order = LaneOrder(ageing)
    known: dict[int, tuple[int, int]] = {}
    for number, (which, age_ms, size) in enumerate(changes):
        oldest = IdFactory(number, lambda age_ms=age_ms: NOW - age_ms).new_id()  # type: ignore[misc]
        order.update_lane(LANES[which], oldest, size)
        known[which] = (oldest, size)
    for now in (NOW, *(NOW + later for later in looks)):
        seen = [
            (rank, project, ready.oldest, ready.size)
            for rank, projects in order.lanes_by_rank(now)
            for project, row in projects.items()
            for _, _, ready in row
        ]
        # Ages may be a second old: what counts is that the rank was right at some moment of it.
        exact = {
            oldest: {
                effective_priority(LANES[which].priority, made_at(oldest), now - late, ageing) for late in range(1_000)
            }
            if step_s < 2
            else {effective_priority(LANES[which].priority, made_at(oldest), now - late, ageing) for late in (0, 999)}
            for which, (oldest, size) in known.items()
            if size
        }
        assert {oldest for _, _, oldest, _ in seen} == exact.keys()
        assert all(rank in exact[oldest] for rank, _, oldest, _ in seen)
        assert [rank for rank, *_ in seen] == sorted((rank for rank, *_ in seen), reverse=True)
        for rank, project in {(rank, project) for rank, project, *_ in seen}:
            row = [oldest for other, whose, oldest, _ in seen if (other, whose) == (rank, project)]
            assert row == sorted(row)


@SETTINGS
@given(st.integers(1, 10), st.integers(-(10**7), 10**7), st.integers(0, 10**7))
def test_waiting_longer_never_costs_a_place(priority: int, age_ms: int, more_ms: int) -> None:
    ageing = Ageing()
    before = effective_priority(priority, NOW - age_ms, NOW, ageing)
    assert priority <= before <= effective_priority(priority, NOW - age_ms, NOW + more_ms, ageing) <= 10


@settings(max_examples=20, derandomize=True, database=None)
@given(st.integers(1, 9), st.integers(5, 50), st.sampled_from((5.0, 20.0)))
def test_the_lowest_is_served_in_time_under_an_endless_stream_of_tens(
    priority: int, backlog: int, step_s: float
) -> None:
    """More tens come in each second than are served, and still the low one gets its turn."""
    clock = [NOW]
    ids = IdFactory(1, lambda: clock[0])
    low_lane, high_lane = (Lane.with_id("q", "p", rank, Requirement("echo")) for rank in (priority, 10))
    order = LaneOrder(Ageing(step_s))
    tens = deque(ids.new_ids(backlog))
    order.update_lane(low_lane, ids.new_id(), 1)
    waited_s = 0
    while True:
        for _ in range(5):
            order.update_lane(high_lane, tens[0] if tens else 0, len(tens))
            (_, projects), *_ = order.lanes_by_rank(clock[0])
            if projects["p"][0][2].lane == low_lane:
                assert waited_s <= (10 - priority) * step_s + backlog + 1
                return
            tens.popleft()
        clock[0] += 1_000
        waited_s += 1
        tens.extend(ids.new_ids(6))
