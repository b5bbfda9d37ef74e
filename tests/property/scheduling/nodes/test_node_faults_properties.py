"""A fleet whose tasks and sites fail keeps its health; evidence fades; a node in doubt always gets some work."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.execution import End
from crawlfleet.model.host_stats import count_answers, count_unreached, empty_row, error_place, record_answer
from crawlfleet.model.node import Measurement, Node, NodeDescription
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.scheduling.nodes.health import (
    TRIAL_INTERVAL_S,
    HealthState,
    Thresholds,
    is_on_trial,
    next_health,
    trial_slots,
)
from crawlfleet.scheduling.nodes.node_faults import HALF_LIFE_S, HostReach, NodeFaults, ProcessFaults
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.placement.strategies import BUILT_IN

SETTINGS = settings(max_examples=60, derandomize=True, database=None)
THRESHOLDS = Thresholds()
NODES = 3
PASS_S = 2.0

site_failures = st.sampled_from(["dns", "connect", "closed", "timeout", "tls", "protocol", "404", "503"])
own_ends = st.sampled_from([End.COMPLETED, End.FAILED, End.TIMED_OUT])
turns = st.lists(
    st.tuples(st.lists(own_ends, max_size=8), st.lists(site_failures, max_size=8)), min_size=NODES, max_size=NODES
)


class Fleet:
    """Nodes whose executions and requests are judged as the leader judges them."""

    def __init__(self) -> None:
        self.processes, self.reach = ProcessFaults(), HostReach()
        self.states = {node: HealthState() for node in range(NODES)}
        self.ends = {node: [0, 0] for node in range(NODES)}
        self.at = 0.0
        for node in range(NODES):
            self.processes.record_ends(node, [], self.at)

    def report_ends(self, node: int, survived: int, died: int) -> None:
        self.ends[node][0] += survived
        self.ends[node][1] += died
        self.processes.record_ends(node, [("web_crawl", self.ends[node][0], self.ends[node][1])], self.at)

    def report_host(self, node: int, host: str, failures: Sequence[str]) -> None:
        row = empty_row()
        for failure in failures:
            if failure.isdigit():
                record_answer(row, int(failure), 0.1)
            else:
                row[error_place(failure)] += 1
        self.reach.record_requests(node, host, count_answers(row), count_unreached(row), self.at)

    def judge(self) -> None:
        crash_rates, network_rates = self.processes.fault_rates(self.at), self.reach.fault_rates(self.at)
        for node, state in self.states.items():
            faults = NodeFaults(crash_rates.get(node, 0.0), network_rates.get(node, 0.0))
            self.states[node] = next_health(state, Measurement(error_rate=1.0), self.at, THRESHOLDS, faults)
        self.at += PASS_S


@SETTINGS
@given(st.lists(turns, min_size=5, max_size=40))
def test_a_fleet_whose_tasks_and_sites_fail_keeps_its_health(history: list[list[tuple[list[End], list[str]]]]) -> None:
    fleet = Fleet()
    for passed in history:
        for node, (ends, failures) in enumerate(passed):
            fleet.report_ends(node, len(ends), 0)
            # A site of this one node's tasks, and one that all of them ask and that is down.
            fleet.report_host(node, f"site-{node}.example", failures)
            fleet.report_host(node, "down.example", ["connect"] * len(failures))
        fleet.judge()
        assert {state.status for state in fleet.states.values()} == {Health.HEALTHY}


@SETTINGS
@given(st.lists(st.integers(0, 20), min_size=5, max_size=40))
def test_a_program_that_crashes_everywhere_costs_no_node_its_health(crashes: list[int]) -> None:
    fleet = Fleet()
    for died in crashes:
        for node in range(NODES):
            fleet.report_ends(node, 0, died)
        fleet.judge()
    assert {state.status for state in fleet.states.values()} == {Health.HEALTHY}


@SETTINGS
@given(st.integers(1, 1_000), st.integers(1, 1_000))
def test_a_node_that_fails_where_others_do_not_is_found_and_forgiven_with_time(died: int, unreached_: int) -> None:
    fleet = Fleet()
    for _ in range(30):
        for node in range(NODES):
            fleet.report_ends(node, *((0, died) if node == 0 else (5, 0)))
            fleet.report_host(node, "a.example", ["connect"] * unreached_ if node == 0 else ["200"] * 3)
        fleet.judge()
    assert [state.status for state in fleet.states.values()] == [Health.UNHEALTHY, Health.HEALTHY, Health.HEALTHY]
    # Nothing more is executed on it, while others go on.
    calm_passes = int((6 * HALF_LIFE_S + 2 * THRESHOLDS.recover_s) / PASS_S)
    for _ in range(calm_passes):
        for node in range(1, NODES):
            fleet.report_ends(node, 5, 0)
            fleet.report_host(node, "a.example", ["200"] * 3)
        fleet.judge()
    assert {state.status for state in fleet.states.values()} == {Health.HEALTHY}


DOUBTED = {"reasons": [{"rule": "crash_rate", "level": "unhealthy", "value": 0.9, "limit": 0.8}]}


def on_trial(node_id: int, held: int, waited_s: float) -> NodeState:
    slots = trial_slots(held, waited_s)
    description = NodeDescription(f"n{node_id}", slots=8, task_types=("web_crawl",))
    node = Node(
        node_id, description, NodeStatus.ONLINE, Health.UNHEALTHY, DOUBTED, is_session_open=True, slots_wanted=slots
    )
    assert is_on_trial(node)
    return NodeState(node, held=held, is_on_trial=True)


def healthy(node_id: int, held: int) -> NodeState:
    description = NodeDescription(f"n{node_id}", slots=8, task_types=("web_crawl",))
    return NodeState(Node(node_id, description, NodeStatus.ONLINE, Health.HEALTHY, is_session_open=True), held=held)


@SETTINGS
@given(
    st.sampled_from(sorted(BUILT_IN)),
    st.integers(0, 5),
    st.floats(TRIAL_INTERVAL_S, 1e6),
    st.integers(1, 100),
    st.integers(0, 2**32),
)
def test_a_node_in_doubt_always_gets_a_trickle(
    strategy: str, others: int, waited_s: float, tasks: int, seed: int
) -> None:
    doubted = on_trial(1, 0, waited_s)
    states = [doubted, *(healthy(2 + number, number) for number in range(others))]
    placer = Placer(states, rng=Random(seed), default_strategy=strategy)
    room = sum(8 - number for number in range(others))
    chosen = [state.node.id for state in placer.place_tasks(Requirement("web_crawl"), "", max(tasks, room + 1))]
    assert chosen.count(1) == 1
    # Its end frees no room for another: the next one is due later.
    placer.release_tasks([(1, Requirement("web_crawl"))])
    again = placer.place_tasks(Requirement("web_crawl"), "", 100)
    assert all(state.node.id != 1 for state in again)


@SETTINGS
@given(st.integers(0, 8), st.integers(1, 20), st.integers(0, 2**32))
def test_the_default_strategy_serves_a_trial_before_all_others(held: int, tasks: int, seed: int) -> None:
    states = [on_trial(1, 0, TRIAL_INTERVAL_S), healthy(2, 0)]
    chosen = Placer(states, rng=Random(seed)).place_tasks(Requirement("web_crawl"), "", tasks)
    assert chosen[0].node.id == 1
    assert on_trial(3, held, 0.0).slots <= 1
