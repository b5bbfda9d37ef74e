import random
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.node import Measurement
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.scheduling.explain.task import explain_placement
from crawlfleet.scheduling.placement.filters import Ask, NodeState, first_refusal
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.strategies import BUILT_IN, Candidates
from tests.node_states import node_state

SETTINGS = settings(max_examples=150, derandomize=True, database=None)
PROJECTS = ("p", "q")

statuses = st.sampled_from((NodeStatus.ONLINE, NodeStatus.ONLINE, NodeStatus.ONLINE, NodeStatus.MAINTENANCE))
types = st.sampled_from((("web_crawl",), ("web_crawl", "shop")))
quarters = st.integers(0, 24).map(lambda n: n / 4)


@dataclass(frozen=True)
class Step:
    requirement: Requirement
    project: str
    count: int
    undone: int


@st.composite
def fleets(draw: st.DrawFn, *, is_plain: bool = False) -> list[NodeState]:
    states = []
    for node in range(1, draw(st.integers(1, 8)) + 1):
        slots = draw(st.integers(0, 6))
        cpu, memory_mb = draw(quarters), draw(quarters) * 256
        states.append(
            node_state(
                node,
                slots=slots,
                held=draw(st.integers(0, slots + 1)),
                resources=(("cpu", cpu), ("memory_mb", memory_mb)) if draw(st.booleans()) else (),
                weight=draw(st.sampled_from((0.0, 0.5, 1.0, 4.0))),
                measurement=Measurement(cpu=draw(quarters) / 6, memory=0.5 if is_plain else draw(quarters) / 6),
                status=NodeStatus.ONLINE if is_plain else draw(statuses),
                health=draw(st.sampled_from((Health.HEALTHY, Health.DEGRADED))),
                cluster_project=None if is_plain else draw(st.sampled_from((None, "p"))),
                task_types=("web_crawl",) if is_plain else draw(types),
            )
        )
    return states


requirements = st.builds(
    Requirement,
    task_type=st.sampled_from(("web_crawl", "shop")),
    strategy=st.sampled_from((None, *BUILT_IN)),
    resources=st.sampled_from(
        ((), (("cpu", 0.25),), (("cpu", 1.5),), (("memory_mb", 64.0),), (("cpu", 0.5), ("memory_mb", 256.0)))
    ),
)
steps = st.builds(Step, requirements, st.sampled_from(PROJECTS), st.integers(0, 15), st.integers(0, 3))


@SETTINGS
@given(fleets(), st.lists(steps, max_size=8), st.sampled_from((0.5, 1.0, 1.3)), st.integers(0, 99))
def test_nothing_is_promised_twice_and_everything_is_accounted_for(
    nodes: list[NodeState], taken: list[Step], overcommit: float, seed: int
) -> None:
    held_before = {state.node.id: state.held for state in nodes}
    placer = Placer(nodes, rng=random.Random(seed), overcommit=overcommit)
    given_to: Counter[tuple[int, Requirement]] = Counter()
    for step in taken:
        ask = Ask(step.requirement, step.project, overcommit)
        able = {state.node.id for state in nodes if first_refusal(state, ask) is None}
        room = placer.count_fitting(step.requirement, step.project)
        chosen = [state.node.id for state in placer.place_tasks(step.requirement, step.project, step.count)]
        assert len(chosen) == min(step.count, room)
        assert set(chosen) <= able
        given_to.update((node, step.requirement) for node in chosen)
        for node in chosen[: step.undone]:
            placer.release_tasks([(node, step.requirement)])
            given_to[node, step.requirement] -= 1

        for state in nodes:
            mine = {asked: count for (node, asked), count in given_to.items() if node == state.node.id}
            assert state.held == held_before[state.node.id] + sum(mine.values())
            assert state.held <= max(state.slots, held_before[state.node.id])
            for name in ("cpu", "memory_mb"):
                wanted = sum(dict(asked.resources).get(name, 0.0) * count for asked, count in mine.items())
                assert state.reserved.get(name, 0.0) == wanted
                assert wanted <= state.declared.get(name, 0.0) * overcommit + 1e-6


@SETTINGS
@given(
    fleets(is_plain=True), st.integers(0, 30), st.sampled_from(sorted(set(BUILT_IN) - {"random"})), st.integers(0, 9)
)
def test_the_heap_chooses_as_if_it_looked_at_every_node_for_every_task(
    nodes: list[NodeState], count: int, strategy: str, seed: int
) -> None:
    requirement = Requirement("web_crawl", strategy=strategy)
    before = {state: state.held for state in nodes}
    chosen = Placer(nodes, rng=random.Random(seed)).place_tasks(requirement, "p", count)

    for state in nodes:
        state.held = before[state]
    able = [state for state in nodes if state.held < state.slots]
    prices = BUILT_IN[strategy](Candidates(requirement, able, random.Random(0), 0))
    times: Counter[NodeState] = Counter()
    for state in chosen:
        cheapest = min(prices.cost(other, times[other]) for other in able if other.held < other.slots)
        # Nodes that cost the same may differ in the last bit, by the order in which it was added up.
        assert prices.cost(state, times[state]) == pytest.approx(cheapest, rel=1e-12)
        state.held += 1
        times[state] += 1


moves = st.tuples(
    st.sampled_from(("least_loaded", "least_tasks", "weighted")),
    st.sampled_from(((), (("cpu", 0.25),), (("cpu", 1.5),), (("cpu", 0.5), ("memory_mb", 256.0)))),
    st.integers(1, 6),
    st.lists(st.integers(0, 99), max_size=6),
)


@SETTINGS
@given(fleets(is_plain=True), st.lists(moves, max_size=12), st.integers(0, 9))
def test_what_is_kept_from_pass_to_pass_chooses_as_if_it_looked_at_every_node(
    nodes: list[NodeState], passes: list[tuple[str, tuple[tuple[str, float], ...], int, list[int]]], seed: int
) -> None:
    """Tasks of several strategies come, and any of those that run end; each is placed where it costs least."""
    placer = Placer(nodes, rng=random.Random(seed))
    running: list[tuple[int, Requirement]] = []
    for strategy, resources, count, ended in passes:
        requirement = Requirement("web_crawl", strategy=strategy, resources=resources)
        prices = BUILT_IN[strategy](Candidates(requirement, nodes, random.Random(0), 0))
        for _ in range(count):
            ask = Ask(requirement, "p")
            able = {state: prices.cost(state, 0) for state in nodes if first_refusal(state, ask) is None}
            chosen = placer.place_tasks(requirement, "p", 1)
            assert len(chosen) == (1 if able else 0)
            for state in chosen:
                assert able[state] == min(able.values())
                running.append((state.node.id, requirement))
        over = [running.pop(which % len(running)) for which in ended if running]
        placer.release_tasks(over)


@SETTINGS
@given(fleets(), st.lists(st.tuples(requirements, st.integers(1, 4)), max_size=12), st.integers(0, 9))
def test_classes_that_take_turns_place_as_much_as_the_nodes_have(
    nodes: list[NodeState], turns: list[tuple[Requirement, int]], seed: int
) -> None:
    placer = Placer(nodes, rng=random.Random(seed))
    for requirement, count in turns:
        chosen = placer.place_tasks(requirement, "p", count)
        if len(chosen) < count:
            assert explain_placement(requirement, "p", nodes).able == 0


@SETTINGS
@given(fleets(), requirements, st.sampled_from(PROJECTS))
def test_the_explanation_and_the_placer_agree(nodes: list[NodeState], requirement: Requirement, project: str) -> None:
    found = explain_placement(requirement, project, nodes)
    assert found.able + sum(found.refusals.values()) == len(nodes)
    chosen = Placer(nodes, rng=random.Random(1)).place_tasks(requirement, project, 1)
    assert bool(chosen) == bool(found.able)
