"""Slots of a pull: never more than the node has, never more than was asked for, whatever starts and ends meanwhile."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.ids import IdFactory
from crawlfleet.model.node import ANY_TASK, OpenPull, PullFilter
from crawlfleet.model.project import Project, Quotas
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.dispatch_round import DispatchRound, RoundInputs, RoundLimits
from crawlfleet.scheduling.placement.fair_shares import FairSharesByRank
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import Ageing, LaneOrder
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.pull_slots import pull_slots
from tests.node_states import node_state

held_sets = st.frozensets(st.integers(1, 30), max_size=12)


def pull(want: int, held: frozenset[int]) -> OpenPull:
    return OpenPull(1, 1, 1, want, 1_000, ANY_TASK, held)


@given(st.integers(1, 100), st.integers(0, 20), held_sets, held_sets)
def test_free_slots_are_what_is_left_of_the_pull(
    want: int, slots: int, before: frozenset[int], now: frozenset[int]
) -> None:
    free = pull_slots(pull(want, before), slots, now) - len(now)
    assert free <= max(0, want - len(now - before))
    assert free <= slots - len(now)
    if len(now) + want <= slots:
        assert free == max(0, want - len(now - before))


@given(st.integers(1, 20), held_sets, st.lists(st.booleans(), max_size=60))
def test_a_pull_is_filled_once_while_other_work_ends(want: int, before: frozenset[int], steps: list[bool]) -> None:
    opened, held, placed = pull(want, before), set(before), 0
    for number, is_placed in enumerate(steps):
        if is_placed and pull_slots(opened, 1_000, held) > len(held):
            held.add(1_000 + number)
            placed += 1
        elif not is_placed and held & before:
            held.discard(min(held & before))
    assert placed <= want


NOW = 1_800_000_000_000
TYPES = ("a", "b")
filters = st.builds(
    PullFilter,
    max_priority=st.sampled_from((10, 10, 7, 3, 1)),
    task_types=st.sampled_from(((), (), ("a",), ("b",), TYPES)),
)
lanes = st.dictionaries(
    st.tuples(st.integers(1, 10), st.sampled_from(TYPES)), st.integers(1, 6), min_size=1, max_size=8
)
pulling = st.lists(st.tuples(st.integers(0, 4), filters), max_size=4)


def takes(state: NodeState, lane: Lane) -> bool:
    wanted = state.pull_filter
    return lane.priority <= wanted.max_priority and (
        not wanted.task_types or lane.requirement.task_type in wanted.task_types
    )


@settings(max_examples=200, derandomize=True, database=None)
@given(lanes, pulling, st.lists(st.integers(0, 3), max_size=2), st.none() | st.integers(0, 8), st.integers(0, 9))
def test_order_conditions_and_quotas_hold_with_pulls(
    sizes: dict[tuple[int, str], int],
    pulls: list[tuple[int, PullFilter]],
    agents: list[int],
    quota: int | None,
    seed: int,
) -> None:
    """A round over nodes with an agent and nodes that pull: as many slots as they want, for what they want."""
    states = [node_state(number, slots=slots, task_types=TYPES) for number, slots in enumerate(agents, 1)]
    for number, (_, wanted) in enumerate(pulls, 100):
        state = node_state(number, slots=4, task_types=TYPES, is_pull_only=True)
        state.pull_filter = wanted
        states.append(state)
    placer = Placer(states, rng=random.Random(seed))
    for number, (want, _) in enumerate(pulls, 100):
        placer.set_pull(number, want, is_pulling=want > 0)
    order, ids = LaneOrder(Ageing()), IdFactory(1, lambda: NOW)
    by_id = {}
    for (priority, task_type), size in sizes.items():
        lane = Lane.with_id("q", "p", priority, Requirement(task_type))
        by_id[lane.id] = lane
        order.update_lane(lane, ids.new_id(), size)
    project = Project("p", quotas=Quotas(running=quota))
    plan = DispatchRound(
        placer, FairSharesByRank(), RoundInputs({"p": project}), RoundLimits(), lambda asked: asked
    ).plan_round(order, NOW)
    placed = {by_id[lane]: nodes for lane, nodes in plan.nodes.items()}
    assert all(takes(state, lane) for lane, nodes in placed.items() for state in nodes)
    assert all(state.held <= state.slots for state in states)
    assert quota is None or plan.placed <= quota
    if quota is not None and plan.placed == quota:
        return
    for lane in by_id.values():
        if len(placed.get(lane, ())) == sizes[lane.priority, lane.requirement.task_type]:
            continue
        # It found no node any more: those that take it are full, and of nothing less important.
        fitting = [state for state in states if takes(state, lane)]
        assert all(state.held == state.slots for state in fitting)
        less = [other for other in placed if other.priority < lane.priority]
        assert not any(state in fitting for other in less for state in placed[other])
