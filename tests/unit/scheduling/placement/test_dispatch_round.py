"""The choice of one pass, by example: who goes first, who shares, who has to wait."""

import random
from collections import Counter

from crawlfleet.model.ids import IdFactory, NodeId
from crawlfleet.model.project import Project, Quotas, Use
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.dispatch_round import DispatchRound, RoundInputs, RoundLimits, RoundPlan
from crawlfleet.scheduling.placement.fair_shares import FairSharesByRank
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import Ageing, LaneOrder
from crawlfleet.scheduling.placement.placer import Placer
from tests.node_states import node_state

NOW = 1_800_000_000_000
PLAIN = Requirement("web_crawl")
NOWHERE = Requirement("nobody runs it")


class Pass:
    def __init__(self, *nodes: NodeState, **projects: Project) -> None:
        self.order = LaneOrder(Ageing())
        self.placer = Placer(nodes, rng=random.Random(1))
        self.shares = FairSharesByRank()
        self.projects = projects
        self.used: dict[str, Use] = {}
        self.paused: set[str] = set()
        self._ids = IdFactory(1, lambda: NOW)

    def lane(
        self, project: str, size: int, requirement: Requirement = PLAIN, *, priority: int = 5, queue: str = "default"
    ) -> Lane:
        lane = Lane.with_id(queue, project, priority, requirement)
        self.order.update_lane(lane, self._ids.new_id(), size)
        return lane

    def choose(self, batch: int = 500, quantum: int = 128) -> RoundPlan:
        terms = RoundInputs(self.projects, lambda project: self.used.get(project, Use()), self.paused)
        self.placer.begin_pass()
        return DispatchRound(
            self.placer, self.shares, terms, RoundLimits(batch, quantum), lambda asked: asked
        ).plan_round(self.order, NOW)


def counts(choice: RoundPlan) -> dict[int, int]:
    return {lane: len(nodes) for lane, nodes in choice.nodes.items()}


def nodes_of(choice: RoundPlan) -> Counter[NodeId]:
    return Counter(state.node.id for nodes in choice.nodes.values() for state in nodes)


def test_nothing_waits() -> None:
    assert Pass(node_state()).choose() == ({}, 0, False)


def test_a_higher_priority_takes_all_it_can_use() -> None:
    one = Pass(node_state(slots=10))
    low, high = one.lane("p", 10, priority=4), one.lane("p", 8, priority=6)
    assert counts(one.choose()) == {high.id: 8, low.id: 2}


def test_lanes_of_one_project_take_turns() -> None:
    one = Pass(node_state(slots=1_000))
    lanes = [one.lane("p", size, priority=5, queue=f"q{size}") for size in (300, 10, 200)]
    choice = one.choose(batch=450, quantum=100)
    assert [counts(choice)[lane.id] for lane in lanes] == [240, 10, 200]
    assert choice.is_full
    assert list(choice.nodes) == [lane.id for lane in lanes]


def test_a_batch_is_full_or_everything_was_placed() -> None:
    one = Pass(node_state(slots=1_000))
    one.lane("p", 500)
    assert one.choose(batch=100).is_full
    assert not one.choose(batch=900).is_full


def test_projects_share_by_weight() -> None:
    one = Pass(node_state(slots=10_000), b=Project("b", weight=3.0))
    a, b = one.lane("a", 5_000), one.lane("b", 5_000)
    found = counts(one.choose(batch=400, quantum=10))
    assert (found[a.id], found[b.id]) == (100, 300)


def test_a_project_that_comes_late_is_not_behind() -> None:
    one = Pass(node_state(slots=10_000))
    first = one.lane("a", 9_000)
    for _ in range(5):
        one.choose(batch=100, quantum=10)
    late = one.lane("b", 9_000)
    found = counts(one.choose(batch=100, quantum=10))
    assert abs(found[first.id] - found[late.id]) <= 20


def test_a_project_of_few_tasks_is_served_within_its_first_turn() -> None:
    one = Pass(node_state(slots=10_000))
    one.lane("many", 100_000)
    few = one.lane("few", 10)
    assert counts(one.choose())[few.id] == 10


def test_being_urgent_is_not_held_against_a_project_among_equals() -> None:
    one = Pass(node_state(slots=10_000))
    urgent = one.lane("a", 300, priority=9)
    other = one.lane("b", 9_000)
    one.choose(batch=300)
    one.order.update_lane(urgent, 0, 0)
    plain = one.lane("a", 9_000)
    found = counts(one.choose(batch=200, quantum=10))
    assert (found[plain.id], found[other.id]) == (100, 100)


def test_a_class_without_a_node_does_not_hold_up_the_others() -> None:
    one = Pass(node_state(slots=5))
    one.lane("a", 50, NOWHERE, priority=10)
    one.lane("b", 50, NOWHERE, priority=10)
    plain = one.lane("a", 50)
    assert counts(one.choose()) == {plain.id: 5}


def test_a_project_that_could_not_be_placed_gains_no_credit() -> None:
    one = Pass(node_state(1, slots=10_000))
    gpu = Requirement("web_crawl", capabilities=(("gpu", 1.0),))
    one.lane("waits", 9_000, gpu)
    busy = one.lane("busy", 9_000)
    for _ in range(10):
        assert one.choose(batch=100, quantum=10).placed == 100
    plain = one.lane("waits", 9_000)
    found = counts(one.choose(batch=200, quantum=10))
    assert abs(found[plain.id] - found[busy.id]) <= 20


def test_paused_queues_stand_still() -> None:
    one = Pass(node_state(slots=50))
    one.lane("p", 10, queue="night")
    day = one.lane("p", 10, queue="day")
    one.paused = {"night"}
    assert counts(one.choose()) == {day.id: 10}


def test_a_cluster_reserved_for_a_project_serves_it_alone() -> None:
    one = Pass(node_state(1, slots=3), node_state(2, slots=4, cluster_project="vip"))
    plain, vip = one.lane("plain", 50), one.lane("vip", 50)
    found = counts(one.choose(quantum=1))
    assert found[plain.id] + found[vip.id] == 7
    assert found[vip.id] >= 4


# -- quotas


def test_no_more_run_than_the_quota_allows() -> None:
    one = Pass(node_state(slots=100), p=Project("p", quotas=Quotas(running=7)))
    one.used["p"] = Use(3)
    lanes = [one.lane("p", 50, priority=priority) for priority in (9, 5)]
    other = one.lane("q", 50)
    assert counts(one.choose()) == {lanes[0].id: 4, other.id: 50}


def test_cores_and_memory_are_counted_over_all_classes() -> None:
    one = Pass(
        node_state(slots=100, resources=(("cpu", 99.0), ("memory_mb", 99_999.0))),
        p=Project("p", quotas=Quotas(cpu=2.0, memory_mb=1_024.0)),
    )
    one.used["p"] = Use(1, {"cpu": 0.5})
    half = one.lane("p", 50, Requirement("web_crawl", resources=(("cpu", 0.5), ("memory_mb", 512.0))))
    quarter = one.lane("p", 50, Requirement("web_crawl", resources=(("cpu", 0.25),)))
    plain = one.lane("p", 50)
    assert counts(one.choose()) == {half.id: 2, quarter.id: 2, plain.id: 50}


def test_a_quota_below_what_runs_starts_nothing() -> None:
    one = Pass(node_state(slots=100), p=Project("p", quotas=Quotas(running=2)))
    one.used["p"] = Use(9)
    one.lane("p", 50)
    assert one.choose() == ({}, 0, False)


def test_load_is_spread_over_alike_nodes() -> None:
    one = Pass(*(node_state(number, slots=10) for number in range(1, 6)))
    one.lane("p", 25)
    assert set(nodes_of(one.choose()).values()) == {5}


def test_full_reserved_clusters_do_not_end_the_round_for_others() -> None:
    """Two projects with clusters of their own fill two keys of one class: the other class still has its turn."""
    reserved = [node_state(number, slots=0, cluster_project=project) for number, project in ((1, "p"), (2, "q"))]
    one = Pass(*reserved, node_state(3, slots=5, task_types=("other",)))
    for project in ("p", "q"):
        one.lane(project, 3, priority=9)
    other = one.lane("r", 4, Requirement("other"), priority=5)
    assert counts(one.choose()) == {other.id: 4}
