"""Making room: nobody of equal or higher priority is stopped, nobody in vain, and never more than allowed."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.filters import CLASS_FILTERS, Ask, NodeState, count_fitting
from crawlfleet.scheduling.placement.preemption import (
    FreedCapacity,
    PreemptibleTask,
    PreemptionRules,
    WaitingLane,
    plan_preemptions,
)
from tests.node_states import node_state

QUICK = settings(max_examples=150, derandomize=True, database=None)
RULES = PreemptionRules()
CPU = 4.0


def requirement(cpu: float, preemptible: bool, task_type: str = "web_crawl") -> Requirement:
    return Requirement(task_type, resources=(("cpu", cpu),) if cpu else (), preemptible=preemptible)


amounts = st.sampled_from([0.0, 0.5, 1.0, 2.0])


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * 3 + list(others))


@st.composite
def on_node(draw: st.DrawFn, node: int) -> tuple[dict[str, Any], list[PreemptibleTask], list[tuple[int, Requirement]]]:
    """A node, mostly full, with what it holds: most of it preemptible, some of it told to stop."""
    held: list[PreemptibleTask] = []
    stopping: list[tuple[int, Requirement]] = []
    reserved = 0.0
    wanted = draw(st.lists(st.tuples(amounts, mostly(True, False), mostly(False, True)), min_size=1, max_size=5))
    for number, (cpu, preemptible, is_stopping) in enumerate(wanted):
        if reserved + cpu > CPU:
            continue
        reserved += cpu
        asked = requirement(cpu, preemptible)
        if is_stopping:
            stopping.append((node, asked))
        else:
            priority = draw(st.integers(1, 7))
            rank = priority + draw(mostly(0, 1, 2))
            since, times = draw(st.integers(0, 50)), draw(mostly(0, 2, 3))
            held.append(PreemptibleTask(10 * node + number, node, asked, priority, rank, since, times))
    used = len(held) + len(stopping)
    # One slot more than it holds, or fewer: its slots were lowered.
    slots = max(0, used + draw(mostly(0, 1, -1, -2)))
    return {"node_id": node, "slots": slots, "held": used, "reserved": {"cpu": reserved}}, held, stopping


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """A few nodes with what they hold, and who waits, in order."""
    nodes, held, stopping = zip(*(draw(on_node(node)) for node in range(1, draw(st.integers(2, 4)))), strict=True)
    waiting = []
    for lane in range(draw(st.integers(1, 4))):
        priority = draw(st.integers(3, 10))
        asked = requirement(draw(amounts), draw(st.booleans()), draw(mostly("web_crawl", "other")))
        rank, size = min(10, priority + draw(mostly(0, 2, 5))), draw(st.integers(1, 4))
        waiting.append(WaitingLane(lane, asked, "p", priority, rank, size, draw(mostly(5.0, 0.0))))
    waiting.sort(key=lambda one: -one.rank)
    return {
        "nodes": nodes,
        "held": list(chain(*held)),
        "stopping": list(chain(*stopping)),
        "waiting": waiting,
        "budget": draw(st.integers(0, 4)),
    }


def states(case: dict[str, Any]) -> list[NodeState]:
    return [node_state(**fields, resources=(("cpu", CPU),)) for fields in case["nodes"]]


def rooms_of(case: dict[str, Any], **changes: Any) -> list[FreedCapacity]:
    case = case | changes
    return plan_preemptions(
        case["waiting"], states(case), case["held"], case["stopping"], budget=case["budget"], rules=RULES
    )


def move(state: NodeState, asked: Requirement, count: int) -> None:
    state.held += count
    for name, amount in asked.resources:
        state.reserved[name] += amount * count


@QUICK
@given(cases())
def test_nobody_of_equal_or_higher_priority_is_stopped(case: dict[str, Any]) -> None:
    wants = {one.lane: one for one in case["waiting"]}
    for room in rooms_of(case):
        want = wants[room.lane]
        assert want.waited_s >= RULES.min_wait_s
        for victim in room.victims:
            assert victim.priority < want.priority
            assert want.rank - victim.rank >= RULES.min_rank_gap
            assert victim.requirement.preemptible
            assert victim.preemptions < RULES.max_preemptions


@QUICK
@given(cases())
def test_the_budget_is_kept_and_nobody_is_stopped_twice(case: dict[str, Any]) -> None:
    victims = [victim.task for room in rooms_of(case) for victim in room.victims]
    assert len(victims) <= case["budget"]
    assert max(Counter(victims).values(), default=0) <= 1


@QUICK
@given(cases())
def test_the_room_that_is_made_is_enough_and_no_victim_is_too_many(case: dict[str, Any]) -> None:
    """For one lane: room by room, on the nodes as they are when it has taken what was free."""
    want = case["waiting"][0]
    ask = Ask(want.requirement, want.project)
    after = {state.node.id: state for state in states(case)}
    for node, asked in case["stopping"]:
        move(after[node], asked, -1)
    for state in after.values():
        move(state, want.requirement, count_fitting(state, ask))
    for room in rooms_of(case, waiting=[want]):
        state = after[room.node]
        assert not any(refuses(state, ask) for refuses in CLASS_FILTERS)
        for victim in room.victims:
            assert count_fitting(state, ask) == 0, "one of them could have stayed"
            move(state, victim.requirement, -1)
        assert count_fitting(state, ask) > 0
        for spared in room.victims:
            move(state, spared.requirement, 1)
            assert count_fitting(state, ask) == 0, "one of them could have stayed"
            move(state, spared.requirement, -1)
        move(state, want.requirement, 1)


@QUICK
@given(cases())
def test_nobody_is_stopped_twice_for_one_who_waits(case: dict[str, Any]) -> None:
    """Asked again while they are stopping, with nothing else changed, nobody more is chosen for what was served."""
    first = rooms_of(case, budget=1_000)
    gone = {victim.task: victim for room in first for victim in room.victims}
    held = [one for one in case["held"] if one.task not in gone]
    stopping = [*case["stopping"], *((one.node, one.requirement) for one in gone.values())]
    assert rooms_of(case, budget=1_000, held=held, stopping=stopping) == []


@QUICK
@given(cases())
def test_what_is_free_is_used_before_anybody_is_stopped(case: dict[str, Any]) -> None:
    """With room for all of it elsewhere, nobody has to go."""
    everything = [*states(case), node_state(99, slots=100, resources=(("cpu", 1_000.0),))]
    waiting = [one for one in case["waiting"] if one.requirement.task_type == "web_crawl"]
    assert plan_preemptions(waiting, everything, case["held"], case["stopping"], budget=100) == []


@QUICK
@given(cases())
def test_room_goes_to_the_one_it_was_made_for(case: dict[str, Any]) -> None:
    """When the first victims are gone, nobody who is served earlier and was not served fits in their place."""
    rooms = rooms_of(case, budget=1)
    for room in rooms:
        after = {state.node.id: state for state in states(case)}
        for node, asked in case["stopping"]:
            move(after[node], asked, -1)
        wants = case["waiting"]
        position = next(place for place, one in enumerate(wants) if one.lane == room.lane)
        left = {}
        for want in wants[:position]:
            left[want.lane] = want.size - fill(list(after.values()), want)
        for victim in room.victims:
            move(after[room.node], victim.requirement, -1)
        for want in wants[:position]:
            if left[want.lane]:
                ask = Ask(want.requirement, want.project)
                is_suited = not any(refuses(after[room.node], ask) for refuses in CLASS_FILTERS)
                assert not (is_suited and count_fitting(after[room.node], ask))


def fill(nodes: list[NodeState], want: WaitingLane) -> int:
    ask, served = Ask(want.requirement, want.project), 0
    for state in nodes:
        if not any(refuses(state, ask) for refuses in CLASS_FILTERS):
            fit = min(want.size - served, count_fitting(state, ask))
            move(state, want.requirement, fit)
            served += fit
    return served
