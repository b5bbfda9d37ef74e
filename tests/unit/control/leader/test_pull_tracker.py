"""The leader's view of open pulls: by its own clock, of the session that is open."""

from __future__ import annotations

from crawlfleet.control.leader.pull_tracker import PullTracker
from crawlfleet.model.node import ANY_TASK, Node, NodeDescription, OpenPull, PullFilter
from crawlfleet.model.status import NodeStatus

LOW = PullFilter(3)


def pull(number: int = 1, *, session: int = 1, wanted: PullFilter = ANY_TASK) -> OpenPull:
    return OpenPull(7, session, number, 2, 5_000, wanted, frozenset())


def node(session: int = 1, *, is_open: bool = True) -> Node:
    return Node(7, NodeDescription("n"), NodeStatus.ONLINE, session=session, is_session_open=is_open)


def test_a_pull_is_open_for_its_span_from_when_it_was_seen_first() -> None:
    tracker = PullTracker()
    tracker.update_pulls([pull()], 100.0)
    tracker.update_pulls([pull()], 104.0)
    assert tracker.find_open(node(), 104.9) == pull()
    assert tracker.find_open(node(), 105.0) is None
    tracker.update_pulls([pull(2)], 106.0)
    assert tracker.find_open(node(), 110.9) == pull(2)


def test_only_the_open_session_has_a_pull() -> None:
    tracker = PullTracker()
    tracker.update_pulls([pull()], 100.0)
    assert tracker.find_open(node(2), 100.0) is None
    assert tracker.find_open(node(is_open=False), 100.0) is None


def test_a_pull_that_is_closed_leaves_its_conditions() -> None:
    tracker = PullTracker()
    tracker.update_pulls([pull(wanted=LOW)], 100.0)
    assert tracker.open_numbers([7, 8]) == {7: 1}
    tracker.update_pulls([], 101.0)
    assert (tracker.find_open(node(), 101.0), tracker.last_filter(7), tracker.has_pulls()) == (None, LOW, False)
    tracker.update_pulls([pull(2)], 102.0)
    assert tracker.last_filter(7) == ANY_TASK


def test_new_pulls_are_named_once() -> None:
    tracker = PullTracker()
    tracker.update_pulls([pull()], 100.0)
    assert (tracker.pop_new(), tracker.pop_new()) == ({7}, set())
    tracker.update_pulls([pull()], 101.0)
    assert tracker.pop_new() == set()
    tracker.update_pulls([pull(2)], 102.0)
    assert tracker.pop_new() == {7}


def test_another_term_begins_with_nothing() -> None:
    tracker = PullTracker()
    tracker.update_pulls([pull(wanted=LOW)], 100.0)
    tracker.clear()
    assert (tracker.has_pulls(), tracker.last_filter(7), tracker.pop_new()) == (False, ANY_TASK, set())


def test_an_update_names_what_was_opened_and_closed() -> None:
    tracker, other = PullTracker(), pull()._replace(node=8)
    assert tracker.update_pulls([pull(), other], 100.0) == {7, 8}
    assert tracker.update_pulls([pull(), other], 101.0) == set()
    assert tracker.update_pulls([pull(2), other], 102.0) == {7}
    assert tracker.update_pulls([pull(2)], 103.0) == {8}
