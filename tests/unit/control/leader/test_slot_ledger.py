"""The leader's memory of what nodes hold: it never counts below nothing, and never twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.model.requirement import Requirement

PLAIN = Requirement("echo")
SMALL = Requirement("echo", resources=(("cpu", 0.25), ("memory_mb", 64.0)))
LARGE = Requirement("echo", resources=(("cpu", 1.75), ("gpu", 1.0)))
REQUIREMENTS = (PLAIN, SMALL, LARGE)


def test_a_task_is_held_once_however_often_it_is_entered() -> None:
    ledger = SlotLedger()
    ledger.hold_one(1, 7, SMALL, now_mono=10.0)
    ledger.hold_one(1, 7, SMALL, now_mono=20.0)
    assert ledger.held_pairs() == {(1, 7)}
    assert ledger.reserved_on(1) == {"cpu": 0.25, "memory_mb": 64.0}
    assert ledger.held_for_s(1, 7, now_mono=25.0) == 15.0


def test_a_task_is_released_once_however_often_it_is_told() -> None:
    ledger = SlotLedger()
    ledger.hold_all([(1, 7), (1, 8)], SMALL, now_mono=0.0)
    ledger.release_all([(1, 7), (1, 7), (2, 8), (3, 3)])
    ledger.release_all([(1, 7)])
    assert ledger.held_pairs() == {(1, 8)}
    assert ledger.reserved_on(1) == {"cpu": 0.25, "memory_mb": 64.0}


def test_an_empty_node_is_empty_to_the_last_crumb() -> None:
    ledger = SlotLedger()
    tenth = Requirement("echo", resources=(("cpu", 0.1),))
    for task in range(30):
        ledger.hold_one(1, task, tenth, now_mono=0.0)
    ledger.release_all((1, task) for task in range(30))
    assert ledger.reserved_on(1) == {}
    assert ledger.holds_on(1) == {}


def test_the_same_task_on_two_nodes_is_two_holds() -> None:
    ledger = SlotLedger()
    ledger.hold_one(1, 7, LARGE, now_mono=0.0)
    ledger.hold_one(2, 7, LARGE, now_mono=5.0)
    ledger.release_all([(1, 7)])
    assert ledger.held_pairs() == {(2, 7)}
    assert ledger.held_for_s(2, 7, now_mono=6.0) == 1.0


def test_news_are_what_ended_and_what_is_in_doubt_never_both() -> None:
    ledger = SlotLedger()
    ledger.hold_all([(1, 7), (1, 8), (2, 9)], SMALL, now_mono=0.0, is_unknown_to_placer=False)
    ledger.release_all([(1, 7), (1, 7), (2, 9)])
    assert ledger.pop_changes() == ([(1, SMALL), (2, SMALL)], set())
    ledger.release_all([(1, 8)])
    ledger.hold_one(1, 10, SMALL, now_mono=0.0)
    ledger.mark_doubted([3])
    assert ledger.pop_changes() == ([], {1, 3})
    assert ledger.pop_changes() == ([], set())


def test_a_late_hint_does_not_take_away_the_next_execution_on_the_same_node() -> None:
    """A task came back to where it was before the leader heard that it had left."""
    first, second = 70, 71
    ledger = SlotLedger()
    ledger.hold_one(1, first, SMALL, now_mono=0.0, project="a")
    ledger.hold_one(1, second, SMALL, now_mono=5.0, project="a")
    ledger.release_all([(1, first)])
    assert ledger.held_pairs() == {(1, second)}
    assert ledger.project_use("a").running == 1
    assert ledger.held_for_s(1, second, now_mono=6.0) == 1.0


def test_what_is_not_known_is_held_for_no_time() -> None:
    assert SlotLedger().held_for_s(1, 7, now_mono=1e9) == 0.0


def test_what_is_handed_out_is_a_copy() -> None:
    ledger = SlotLedger()
    ledger.hold_one(1, 7, SMALL, now_mono=0.0)
    ledger.reserved_on(1)["cpu"] = 99.0
    assert ledger.reserved_on(1)["cpu"] == 0.25


def test_a_cleared_ledger_has_forgotten_everything() -> None:
    ledger = SlotLedger()
    ledger.hold_one(1, 7, SMALL, now_mono=0.0)
    ledger.clear()
    assert ledger.held_pairs() == set()
    assert ledger.reserved_on(1) == {}


nodes, tasks = st.integers(1, 3), st.integers(1, 8)
holds = st.tuples(st.just("hold"), nodes, tasks)
releases = st.tuples(st.just("release"), nodes, tasks)
clears = st.tuples(st.just("clear"), nodes, tasks)


@given(st.lists(st.one_of(holds, holds, releases, releases, clears), max_size=60))
def test_it_counts_what_a_set_would_count_and_never_below_nothing(steps: list[tuple[str, int, int]]) -> None:
    ledger, expected = SlotLedger(), set[tuple[int, int]]()
    for verb, node, task in steps:
        # The class of a task never changes.
        requirement = REQUIREMENTS[task % 3]
        if verb == "hold":
            ledger.hold_one(node, task, requirement, now_mono=0.0)
            expected.add((node, task))
        elif verb == "release":
            ledger.release_all([(node, task)])
            expected.discard((node, task))
        else:
            ledger.clear()
            expected.clear()
        assert ledger.held_pairs() == expected
        for one in (1, 2, 3):
            sums: Counter[str] = Counter()
            for _, held in (pair for pair in expected if pair[0] == one):
                sums.update(dict(REQUIREMENTS[held % 3].resources))
            reserved = ledger.reserved_on(one)
            assert all(amount >= 0 for amount in reserved.values())
            assert {name: amount for name, amount in reserved.items() if amount} == pytest.approx(dict(sums))
