import random
import time
from collections import Counter
from dataclasses import replace

import pytest

from crawlfleet.model.node import PullFilter
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.strategies import BUILT_IN, Candidates
from tests.node_states import node_state

PLAIN = Requirement("web_crawl")
ONE_CPU = Requirement("web_crawl", resources=(("cpu", 1.0),))


def placer(*nodes: NodeState, seed: int = 1, overcommit: float = 1.0, default_strategy: str = "least_loaded") -> Placer:
    return Placer(nodes, rng=random.Random(seed), overcommit=overcommit, default_strategy=default_strategy)


def ids(states: list[NodeState]) -> list[int]:
    return [state.node.id for state in states]


def test_no_node_takes_nothing() -> None:
    assert placer().place_tasks(PLAIN, "p", 5) == []
    assert placer().count_fitting(PLAIN, "p") == 0


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_asked_changes_nothing(count: int) -> None:
    node = node_state()
    assert placer(node).place_tasks(PLAIN, "p", count) == []
    assert node.held == 0


def test_slots_fill_and_then_no_more() -> None:
    nodes = [node_state(1, slots=3, held=1), node_state(2, slots=2)]
    passing = placer(*nodes)
    assert passing.count_fitting(PLAIN, "p") == 4
    assert Counter(ids(passing.place_tasks(PLAIN, "p", 10))) == {1: 2, 2: 2}
    assert [node.held for node in nodes] == [3, 2]
    assert passing.count_fitting(PLAIN, "p") == 0
    assert passing.place_tasks(PLAIN, "p", 1) == []


def test_overcommit_never_touches_slots() -> None:
    assert len(placer(node_state(slots=3), overcommit=5.0).place_tasks(PLAIN, "p", 100)) == 3


def test_a_task_without_a_request_reserves_nothing_but_a_slot() -> None:
    node = node_state(resources=(("cpu", 1.0),), reserved={"cpu": 1.0})
    assert len(placer(node).place_tasks(PLAIN, "p", 2)) == 2
    assert node.reserved == {"cpu": 1.0}


@pytest.mark.parametrize(("overcommit", "fits"), [(1.0, 2), (1.5, 3), (2.0, 4), (0.4, 0)])
def test_resources_are_reserved_up_to_the_overcommit(overcommit: float, fits: int) -> None:
    node = node_state(slots=10, resources=(("cpu", 2.0),))
    passing = placer(node, overcommit=overcommit)
    assert passing.count_fitting(ONE_CPU, "p") == fits
    assert len(passing.place_tasks(ONE_CPU, "p", 10)) == fits
    assert node.reserved.get("cpu", 0.0) == fits


def test_a_resource_no_node_declared_counts_as_none() -> None:
    assert placer(node_state()).place_tasks(ONE_CPU, "p", 1) == []


def test_only_nodes_that_would_do_are_used() -> None:
    nodes = [
        node_state(1, task_types=("shop",)),
        node_state(2, status=NodeStatus.MAINTENANCE),
        node_state(3, health=Health.UNHEALTHY),
        node_state(4, is_pull_only=True),
        node_state(5, cluster_project="other"),
        node_state(6),
    ]
    assert ids(placer(*nodes).place_tasks(PLAIN, "p", 2)) == [6, 6]


def test_a_reserved_cluster_serves_its_own_project() -> None:
    passing = placer(node_state(1, cluster_project="own"))
    assert passing.place_tasks(PLAIN, "p", 1) == []
    assert ids(passing.place_tasks(PLAIN, "own", 1)) == [1]


def test_classes_share_the_nodes_and_see_what_the_other_took() -> None:
    nodes = [node_state(n, slots=4, resources=(("cpu", 2.0),)) for n in (1, 2)]
    passing = placer(*nodes)
    passing.place_tasks(PLAIN, "p", 2)
    assert Counter(ids(passing.place_tasks(ONE_CPU, "p", 3))) in ({1: 2, 2: 1}, {1: 1, 2: 2})
    assert len(passing.place_tasks(PLAIN, "q", 9)) == 3
    assert [node.held for node in nodes] == [4, 4]
    assert passing.place_tasks(ONE_CPU, "p", 1) == []


def test_prices_are_looked_at_again_when_another_class_took_a_place() -> None:
    shop = Requirement("shop")
    nodes = [node_state(1, slots=10, task_types=("web_crawl", "shop")), node_state(2, slots=10)]
    passing = placer(*nodes)
    passing.place_tasks(PLAIN, "p", 2)
    passing.place_tasks(shop, "p", 6)
    assert ids(passing.place_tasks(PLAIN, "p", 6)) == [2] * 6


def test_undo_gives_back_slots_and_resources() -> None:
    node = node_state(slots=2, resources=(("cpu", 2.0),))
    passing = placer(node)
    assert len(passing.place_tasks(ONE_CPU, "p", 2)) == 2
    assert passing.place_tasks(ONE_CPU, "p", 1) == []
    passing.release_tasks([(node.node.id, ONE_CPU)])
    assert (node.held, node.reserved) == (1, {"cpu": 1.0})
    assert passing.count_fitting(ONE_CPU, "p") == 1
    assert ids(passing.place_tasks(ONE_CPU, "p", 5)) == [1]


def test_undo_reopens_a_node_that_was_full_when_a_class_first_looked() -> None:
    node = node_state(slots=1)
    passing = placer(node)
    passing.place_tasks(PLAIN, "p", 1)
    assert passing.count_fitting(PLAIN, "q") == 0
    passing.release_tasks([(node.node.id, PLAIN)])
    assert passing.count_fitting(PLAIN, "q") == 1


def test_giving_back_never_goes_below_nothing() -> None:
    node = node_state(resources=(("cpu", 2.0),))
    placer(node).release_tasks([(node.node.id, ONE_CPU)] * 3)
    assert (node.held, node.reserved) == (0, {})


def test_single_tasks_on_idle_nodes_do_not_all_go_to_the_first() -> None:
    first = {
        ids(placer(*(node_state(n) for n in range(1, 9)), seed=seed).place_tasks(PLAIN, "p", 1))[0]
        for seed in range(40)
    }
    assert len(first) > 4


def test_the_same_chance_gives_the_same_plan() -> None:
    def plan() -> list[int]:
        nodes = (node_state(n, slots=n % 5 + 1) for n in range(1, 30))
        return ids(placer(*nodes, seed=9).place_tasks(PLAIN, "p", 50))

    assert plan() == plan()


def test_an_unknown_strategy_falls_back_to_the_default_and_is_reported() -> None:
    odd = Requirement("web_crawl", strategy="astrology")
    passing = placer(node_state(1, held=1), node_state(2), default_strategy="least_tasks")
    assert ids(passing.place_tasks(odd, "p", 1)) == [2]
    assert passing.unknown_strategies == {"astrology"}


def test_an_unknown_default_falls_back_too() -> None:
    passing = placer(node_state(1), default_strategy="nonsense")
    assert ids(passing.place_tasks(PLAIN, "p", 1)) == [1]
    assert passing.unknown_strategies == {"nonsense"}


def test_a_strategy_of_ones_own_is_a_small_class() -> None:
    class HighestId:
        def __init__(self, candidates: Candidates) -> None:
            self.wanted = candidates.requirement.target_region

        def cost(self, state: NodeState, given: int) -> float:
            return -state.node.id

    nodes = [node_state(n, slots=1) for n in (1, 2, 3)]
    own = Placer(nodes, rng=random.Random(1), strategies={**BUILT_IN, "highest": HighestId})
    assert ids(own.place_tasks(Requirement("web_crawl", strategy="highest"), "p", 3)) == [3, 2, 1]


def test_five_hundred_tasks_over_a_hundred_nodes_take_no_time() -> None:
    def took_s(seed: int) -> float:
        nodes = [node_state(n, slots=16) for n in range(1, 101)]
        passing = placer(*nodes, seed=seed)
        begun_at = time.perf_counter()
        assert len(passing.place_tasks(PLAIN, "p", 500)) == 500
        return time.perf_counter() - begun_at

    # Measured 0.6 ms; the bound is wide so that a loaded machine does not fail it, and a loop per task still does.
    assert min(took_s(seed) for seed in range(20)) < 0.005


def test_a_task_for_one_node_goes_nowhere_else() -> None:
    nodes = [node_state(n, slots=2) for n in (1, 2, 3)]
    only = Requirement("web_crawl", node=2)
    for strategy in ("least_loaded", "random"):
        passing = placer(*nodes)
        requirement = replace(only, strategy=strategy)
        assert ids(passing.place_tasks(requirement, "p", 1)) == [2]
        assert passing.place_elsewhere(2, requirement, "p") is None
        assert not passing.has_no_feasible_node(requirement, "p")
    assert placer(*nodes).place_tasks(only, "p", 1) == []
    assert placer(*nodes).has_no_feasible_node(replace(only, node=9), "p")
    assert Counter(ids(placer(*nodes).place_tasks(PLAIN, "p", 9))) == {1: 2, 3: 2}


def test_a_pull_gives_its_node_slots_and_takes_them_back() -> None:
    node = node_state(1, slots=4, is_pull_only=True)
    passing = placer(node)
    passing.set_pull(1, 2, is_pulling=True)
    assert ids(passing.place_tasks(PLAIN, "p", 5)) == [1, 1]
    passing.set_pull(1, 0, is_pulling=False)
    passing.set_held(1, 0, {})
    assert passing.place_tasks(PLAIN, "p", 5) == []


def test_a_pull_up_to_a_priority_leaves_what_is_above() -> None:
    low = node_state(1, slots=4, is_pull_only=True)
    low.pull_filter = PullFilter(max_priority=3)
    passing = placer(low, node_state(2, slots=1))
    passing.set_pull(1, 4, is_pulling=True)
    assert ids(passing.place_tasks(PLAIN, "p", 5, 9)) == [2]
    assert ids(passing.place_tasks(PLAIN, "p", 5, 3)) == [1, 1, 1, 1]
