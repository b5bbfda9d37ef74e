import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from crawlfleet.model.node import Measurement
from crawlfleet.model.requirement import DEFAULT_STRATEGY, STRATEGIES, Requirement
from crawlfleet.model.status import Health
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.node_classes import CLASS_INDEPENDENT
from crawlfleet.scheduling.placement.placer import Cursors, Placer
from crawlfleet.scheduling.placement.strategies import BUILT_IN, BY_SUBJECT, Candidates
from tests.node_states import node_state


def placed(strategy: str, nodes: Sequence[NodeState], count: int, cursors: Cursors | None = None) -> list[int]:
    placer = Placer(nodes, rng=random.Random(1), cursors=cursors)
    return [state.node.id for state in placer.place_tasks(Requirement("web_crawl", strategy=strategy), "p", count)]


def cost(strategy: str, state: NodeState) -> float:
    candidates = Candidates(Requirement("web_crawl"), [state], random.Random(1), 0)
    return BUILT_IN[strategy](candidates).cost(state, 0)


def test_every_name_has_its_strategy_and_no_list_names_another() -> None:
    assert sorted(BUILT_IN) == sorted(STRATEGIES)
    assert {DEFAULT_STRATEGY, *BY_SUBJECT, *CLASS_INDEPENDENT} <= set(STRATEGIES)


def test_least_loaded_keeps_the_shares_in_use_level() -> None:
    nodes = [node_state(1, slots=2), node_state(2, slots=4), node_state(3, slots=8)]
    assert Counter(placed("least_loaded", nodes, 7)) == {1: 1, 2: 2, 3: 4}


def test_least_loaded_counts_what_a_node_holds_already() -> None:
    nodes = [node_state(1, slots=4, held=3), node_state(2, slots=4)]
    assert placed("least_loaded", nodes, 3) == [2, 2, 2]


def test_least_loaded_sees_the_scarcest_resource() -> None:
    cpu = (("cpu", 10.0),)
    reserved = node_state(1, slots=10, held=1, resources=cpu, reserved={"cpu": 8.0})
    assert cost("least_loaded", reserved) == pytest.approx(0.8)
    assert placed("least_loaded", [reserved, node_state(2, slots=10, held=5, resources=cpu)], 2) == [2, 2]


def test_least_loaded_takes_a_resource_that_was_never_declared_for_full() -> None:
    assert cost("least_loaded", node_state(slots=10, reserved={"gpu": 1.0})) == 1.0


def test_a_busy_processor_or_degraded_health_raises_the_price_but_never_refuses() -> None:
    busy = node_state(1, slots=10, measurement=Measurement(cpu=1.0))
    degraded = node_state(2, slots=10, health=Health.DEGRADED)
    idle = node_state(3, slots=10)
    assert Counter(placed("least_loaded", [busy, degraded, idle], 5)) == {3: 5}
    assert Counter(placed("least_loaded", [busy, degraded, idle], 25)) == {1: 10, 2: 10, 3: 5}


@pytest.mark.parametrize("cpu", [math.nan, -1.0, 0.0])
def test_a_measured_figure_that_cannot_be_costs_nothing(cpu: float) -> None:
    assert cost("least_loaded", node_state(slots=10, measurement=Measurement(cpu=cpu))) == pytest.approx(0.1)


def test_least_tasks_counts_tasks_whatever_the_size() -> None:
    nodes = [node_state(1, slots=10, held=2), node_state(2, slots=100)]
    assert Counter(placed("least_tasks", nodes, 6)) == {1: 2, 2: 4}


def test_weighted_gives_in_proportion_to_weight() -> None:
    nodes = [node_state(1, slots=100, weight=1.0), node_state(2, slots=100, weight=3.0)]
    assert Counter(placed("weighted", nodes, 80)) == {1: 20, 2: 60}


@pytest.mark.parametrize("weight", [0.0, -2.0])
def test_a_node_without_weight_is_the_last_resort(weight: float) -> None:
    nodes = [node_state(1, slots=5, weight=weight), node_state(2, slots=5)]
    assert placed("weighted", nodes, 7) == [2, 2, 2, 2, 2, 1, 1]


def test_round_robin_goes_round_by_id_and_skips_full_nodes() -> None:
    nodes = [node_state(3), node_state(1, slots=1), node_state(2)]
    assert placed("round_robin", nodes, 7) == [1, 2, 3, 2, 3, 2, 3]


def test_round_robin_goes_on_after_the_node_of_the_last_pass() -> None:
    cursors: Cursors = {}
    served = [placed("round_robin", [node_state(n) for n in (1, 2, 3)], 1, cursors)[0] for _ in range(5)]
    assert served == [1, 2, 3, 1, 2]


def test_round_robin_goes_on_when_its_last_node_has_left() -> None:
    cursors: Cursors = {}
    assert placed("round_robin", [node_state(n) for n in (1, 2, 3)], 2, cursors) == [1, 2]
    assert placed("round_robin", [node_state(n) for n in (1, 3)], 2, cursors) == [3, 1]


def test_a_class_that_only_one_node_can_run_does_not_turn_the_wheel_of_another() -> None:
    cursors: Cursors = {}
    common = Requirement("web_crawl", strategy="round_robin")
    special = Requirement("browser", strategy="round_robin")
    served: Counter[int] = Counter()
    for _ in range(8):
        nodes = [node_state(n) for n in (1, 2, 3)] + [node_state(4, task_types=("web_crawl", "browser"))]
        placer = Placer(nodes, rng=random.Random(1), cursors=cursors)
        served.update(state.node.id for state in placer.place_tasks(common, "p", 1))
        assert [state.node.id for state in placer.place_tasks(special, "p", 1)] == [4]
    assert served == {1: 2, 2: 2, 3: 2, 4: 2}


def test_random_comes_from_the_chance_given_and_reaches_everybody() -> None:
    def chosen(seed: int) -> list[int]:
        nodes = [node_state(n, slots=100) for n in range(1, 6)]
        placer = Placer(nodes, rng=random.Random(seed), default_strategy="random")
        return [state.node.id for state in placer.place_tasks(Requirement("web_crawl"), "p", 100)]

    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)
    assert set(chosen(1)) == {1, 2, 3, 4, 5}


def machine(node_id: int, cpu: float, memory_mb: float, **more: object) -> NodeState:
    return node_state(node_id, slots=10, resources=(("cpu", cpu), ("memory_mb", memory_mb)), **more)  # type: ignore[arg-type]


def test_largest_takes_the_node_with_most_cpu_and_memory_left() -> None:
    small, large = machine(1, 4.0, 8_192.0), machine(2, 16.0, 65_536.0)
    assert placed("largest", [small, large], 3) == [2, 2, 2]


def test_largest_looks_at_what_is_left_not_at_what_is_there() -> None:
    reserved = machine(1, 16.0, 65_536.0, reserved={"cpu": 15.0, "memory_mb": 60_000.0})
    measured = machine(2, 16.0, 65_536.0, measurement=Measurement(cpu=0.9, memory=0.9))
    free = machine(3, 8.0, 32_768.0)
    assert placed("largest", [reserved, measured, free], 2) == [3, 3]


def test_largest_spreads_over_alike_machines_though_nothing_was_reserved() -> None:
    nodes = [machine(n, 8.0, 1_024.0) for n in (1, 2, 3)]
    assert Counter(placed("largest", nodes, 9)) == {1: 3, 2: 3, 3: 3}


def test_largest_does_without_declared_resources() -> None:
    assert sorted(placed("largest", [node_state(1, slots=1), node_state(2, slots=1)], 5)) == [1, 2]


@pytest.mark.parametrize("strategy", sorted(set(BUILT_IN) - {"random"}))
def test_a_price_never_falls_while_a_node_fills(strategy: str) -> None:
    state = machine(1, 8.0, 1_024.0, measurement=Measurement(cpu=0.4, memory=0.3))
    made = BUILT_IN[strategy](Candidates(Requirement("web_crawl"), [state], random.Random(1), 0))
    prices = []
    for given in range(10):
        prices.append(made.cost(state, given))
        state.held += 1
        state.reserved["cpu"] = state.reserved.get("cpu", 0.0) + 0.75
    assert prices == sorted(prices)
