"""Faults of nodes: only what other nodes do better counts, and it fades."""

from __future__ import annotations

import pytest

from crawlfleet.scheduling.nodes.node_faults import (
    BATCH_DELAY_S,
    HALF_LIFE_S,
    MAX_WEIGHT,
    PRIOR,
    HostReach,
    ProcessFaults,
    SilenceDetector,
)

A, B, C = 1, 2, 3
CRAWL = "web_crawl"


def crashes(*ends: tuple[int, str, int, int], at: float = 0.0) -> ProcessFaults:
    """Of nodes that had no executions before."""
    found = ProcessFaults()
    for node in {end[0] for end in ends}:
        found.record_ends(node, [], at)
    for node in {end[0] for end in ends}:
        found.record_ends(node, [end[1:] for end in ends if end[0] == node], at)
    return found


def test_processes_that_die_on_one_node_alone_count() -> None:
    rates = crashes((A, CRAWL, 0, 18), (B, CRAWL, 18, 0)).fault_rates(0.0)
    assert rates == {A: pytest.approx(18 / (18 + PRIOR))}


def test_processes_that_die_on_every_node_say_nothing_about_one() -> None:
    assert crashes((A, CRAWL, 0, 100), (B, CRAWL, 0, 100)).fault_rates(0.0) == {}


def test_a_node_without_others_is_not_judged_by_its_crashes() -> None:
    assert crashes((A, CRAWL, 0, 100)).fault_rates(0.0) == {}
    # Nor by others that have hardly executed anything, or only other types.
    assert crashes((A, CRAWL, 0, 100), (B, CRAWL, 2, 0)).fault_rates(0.0) == {}
    assert crashes((A, CRAWL, 0, 100), (B, "sleep", 50, 0)).fault_rates(0.0) == {}


def test_a_few_crashes_among_many_executions_are_a_small_rate() -> None:
    rates = crashes((A, CRAWL, 95, 5), (B, CRAWL, 100, 0)).fault_rates(0.0)
    assert 0 < rates[A] < 0.05


def test_what_a_new_leader_hears_first_is_where_it_counts_from() -> None:
    found = ProcessFaults()
    found.record_ends(B, [], 0.0)
    found.record_ends(B, [(CRAWL, 10, 0)], 0.0)
    found.record_ends(A, [(CRAWL, 5, 500)], 0.0)
    assert found.fault_rates(0.0) == {}
    found.record_ends(A, [(CRAWL, 5, 509)], 0.0)
    assert found.fault_rates(0.0) == {A: pytest.approx(9 / (9 + PRIOR))}


def test_an_agent_that_was_started_anew_counts_from_nothing() -> None:
    found = crashes((A, CRAWL, 1_000, 0), (B, CRAWL, 10, 0))
    found.forget_node(A)
    found.record_ends(A, [(CRAWL, 1_000, 0)], 0.0)
    found.record_ends(A, [(CRAWL, 0, 9)], 0.0)
    assert found.fault_rates(0.0)[A] == pytest.approx(9 / (9 + PRIOR))


def test_crashes_fade_though_nothing_is_executed_any_more() -> None:
    found = crashes((A, CRAWL, 0, 10_000), (B, CRAWL, 10_000, 0))
    assert found.fault_rates(0.0)[A] == pytest.approx(MAX_WEIGHT / (MAX_WEIGHT + PRIOR))
    # While the other node goes on, so that there is something to compare with.
    found.record_ends(B, [(CRAWL, 20_000, 0)], 4 * HALF_LIFE_S)
    left = MAX_WEIGHT / 16
    assert found.fault_rates(4 * HALF_LIFE_S)[A] == pytest.approx(left / (left + PRIOR))


def test_what_is_forgotten_is_counted_from_the_next_report() -> None:
    found = crashes((A, CRAWL, 0, 100), (B, CRAWL, 100, 0))
    found.forget_node(A)
    found.record_ends(A, [(CRAWL, 0, 100)], 1.0)
    assert found.fault_rates(1.0) == {}
    found.keep_nodes([A])
    assert found.fault_rates(1.0) == {}


def reach_of(*batches: tuple[float, int, str, int, int]) -> HostReach:
    reach = HostReach()
    for at, node, host, reached, unreached in batches:
        reach.record_requests(node, host, reached, unreached, at)
    return reach


LATER = BATCH_DELAY_S + 5


def test_a_host_that_others_reach_meanwhile_counts() -> None:
    reach = reach_of((0, A, "a.example", 0, 8), (LATER, B, "a.example", 3, 0))
    assert reach.fault_rates(0.0) == {A: pytest.approx(8 / (8 + PRIOR))}


def test_a_host_that_nobody_reaches_says_nothing_about_a_node() -> None:
    reach = reach_of(*((at, node, "a.example", 0, 50) for at in range(0, 60, 5) for node in (A, B, C)))
    assert reach.fault_rates(60.0) == {}


def test_a_host_that_others_reached_before_may_be_down_since() -> None:
    reach = reach_of((0, B, "a.example", 500, 0), (5, A, "a.example", 0, 50), (8, B, "a.example", 5, 0))
    assert reach.fault_rates(30.0) == {}
    # They are failing as well by now.
    reach.record_requests(B, "a.example", 1, 9, 30.0)
    assert reach.fault_rates(30.0) == {}


def test_a_host_that_only_this_node_asks_says_nothing() -> None:
    reach = reach_of((0, A, "a.example", 0, 50), (LATER, B, "b.example", 50, 0))
    assert reach.fault_rates(LATER) == {}


def test_hosts_that_are_reached_outweigh_one_that_is_not() -> None:
    hosts = [(0.0, A, f"h{number}.example", 10, 0) for number in range(10)]
    reach = reach_of((0, A, "a.example", 0, 8), (LATER, B, "a.example", 3, 0), *hosts)
    assert 0 < reach.fault_rates(0.0)[A] < 0.1


def test_a_node_that_reaches_the_host_again_has_no_fault() -> None:
    reach = reach_of((0, A, "a.example", 0, 8), (LATER, B, "a.example", 3, 0), (LATER + 1, A, "a.example", 2, 0))
    assert reach.fault_rates(LATER + 1) == {}


def test_hosts_not_reached_fade() -> None:
    reach = reach_of((0, A, "a.example", 0, 16), (LATER, B, "a.example", 3, 0))
    rates = [reach.fault_rates(at)[A] for at in (0.0, HALF_LIFE_S, 3 * HALF_LIFE_S)]
    assert rates == [pytest.approx(count / (count + PRIOR)) for count in (16, 8, 2)]


def test_memory_is_bounded_by_the_number_of_hosts() -> None:
    reach = HostReach(max_hosts=10)
    for number in range(100):
        reach.record_requests(A, f"h{number}.example", 0, 5, 0.0)
        reach.record_requests(B, f"h{number}.example", 5, 0, LATER)
    assert len(reach._by_host) == 10
    assert {len(hosts) for hosts in reach._by_node.values()} == {10}
    reach.keep_nodes([B])
    assert set(reach._by_node) == {B}
    reach.forget_node(B)
    assert not reach._by_host


def test_a_node_is_silent_when_others_are_heard() -> None:
    silence = SilenceDetector()
    for second in range(20):
        heard = {A: (1, 5 if second > 2 else second, 9.0), B: (1, second, 9.0), C: (1, second, 9.0)}
        silent = silence.silent_nodes(heard, float(second))
        assert silent == ({A} if second > 3 + 4 else set()), second


def test_a_new_session_is_heard_though_it_counts_from_the_same_number() -> None:
    silence = SilenceDetector()
    silence.silent_nodes({A: (1, 5, 9.0), B: (1, 1, 9.0)}, 0.0)
    assert silence.silent_nodes({A: (2, 5, 9.0), B: (1, 2, 9.0)}, 6.0) == set()


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_when_all_are_silent_the_fault_is_not_theirs(nodes: int) -> None:
    silence = SilenceDetector()
    counts = dict.fromkeys(range(nodes), (1, 5, 9.0))
    for second in range(9):
        assert silence.silent_nodes(counts, float(second)) == set()
