"""What is counted of hosts: places and percentiles, and the batches in which a node tells of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.budget.host_gate import HostUsage
from crawlfleet.execution.budget.host_stats import BATCH_EVERY_S, MAX_NAMED_HOSTS, HostStats
from crawlfleet.model import host_stats as figures
from crawlfleet.model import limits
from crawlfleet.model.host_stats import ALL_HOSTS, BLOCKED, PAGES, REQUESTS, empty_row
from testkit.clock import FakeClock

HOST = "a.example"


def _timed(*took_ms: float) -> list[int]:
    row = empty_row()
    for one in took_ms:
        figures.record_answer(row, 200, one / 1000)
    return row


def test_an_answer_is_counted_by_status_and_time() -> None:
    row = empty_row()
    for status in (200, 204, 301, 404, 429, 503, 599, 700):
        figures.record_answer(row, status, 0.02)
    classes = [row[figures.status_place(100 * first)] for first in range(1, 6)]
    assert (classes, row[figures.TOO_MANY], row[figures.UNAVAILABLE]) == ([0, 2, 1, 2, 3], 1, 1)
    assert (row[figures.TOOK_MS], figures.count_answers(row), len(row)) == (160, 8, figures.PLACES)


def test_errors_of_a_kind_nobody_knows_are_others() -> None:
    assert figures.error_place("policy") == figures.error_place("other") != figures.error_place("dns")


@given(st.lists(st.floats(0, 60_000), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_percentile_is_within_the_bounds_of_the_true_one(took_ms: list[float], part: float) -> None:
    told = figures.percentile_ms(_timed(*took_ms), part)
    ordered = sorted(took_ms)
    true = ordered[min(len(ordered) - 1, max(0, -int(-part * len(ordered) // 1) - 1))]
    place = figures.time_place(true) - figures.TIMES
    bounds = (0, *figures.BOUNDS_MS, figures.BOUNDS_MS[-1])
    assert told is not None and bounds[place] <= told <= bounds[place + 1]


def test_percentiles_rise_and_need_answers() -> None:
    row = _timed(*range(1, 1_000))
    told = [figures.percentile_ms(row, part) or 0.0 for part in (0.1, 0.5, 0.9, 0.99, 1.0)]
    assert told == sorted(told)
    assert told[1] == pytest.approx(500, rel=0.02)
    assert figures.percentile_ms(empty_row(), 0.5) is None


class Node:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.figures = HostStats(self.clock)
        self.number = 0
        self.taken: dict[tuple[int, int], dict[str, list[int]]] = {}
        """What the store has: of each batch, by its name."""

    def count(self, requests: int = 1, host: str = HOST) -> None:
        row = empty_row()
        row[PAGES] = requests
        self.figures.add(HostUsage(host, 1, requests, 0, 0, tuple(row)))

    def sync(self, session: int = 1, *, arrives: bool = True, is_answered: bool = True, is_last: bool = False) -> None:
        self.number += 1
        batch = self.figures.next_batch(session, self.number, is_last=is_last)
        if batch is not None and arrives:
            newest = max(self.taken, default=(0, 0))
            if (batch.session, batch.number) > newest:
                self.taken[batch.session, batch.number] = dict(batch.hosts)
        if is_answered and arrives:
            self.figures.sync_answered(self.number)

    @property
    def total(self) -> int:
        return sum(row[REQUESTS] for hosts in self.taken.values() for row in hosts.values())


def test_batches_are_told_at_once_and_then_every_few_seconds() -> None:
    node = Node()
    node.count(3)
    node.sync()
    assert node.taken == {(1, 1): {HOST: [3, 0, 3, *empty_row()[3:]]}}
    node.count(2)
    node.sync()
    assert node.total == 3
    node.clock.advance(seconds=BATCH_EVERY_S)
    node.sync()
    assert node.total == 5
    node.count()
    node.sync(is_last=True)
    assert node.total == 6


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["lost", "unanswered", "answered", "new session"]))))
def test_lost_syncs_lost_answers_and_new_sessions_count_nothing_twice(steps: list[tuple[int, str]]) -> None:
    node, session, counted = Node(), 1, 0
    for requests, how in steps:
        node.count(requests)
        counted += requests
        if how == "new session":
            session += 1
            node.number = 0
            node.figures.start_session()
        node.sync(session, arrives=how != "lost", is_answered=how == "answered")
        assert node.total <= counted
        node.clock.advance(seconds=BATCH_EVERY_S)
    for _ in range(2):
        node.sync(session)
        node.clock.advance(seconds=BATCH_EVERY_S)
    assert node.total == counted


def test_too_many_hosts_are_counted_together() -> None:
    node = Node()
    for number in range(MAX_NAMED_HOSTS + 5):
        node.count(1, f"{number}.example")
    for _ in range(MAX_NAMED_HOSTS // limits.FIGURES_PER_SYNC + 1):
        node.sync()
        node.clock.advance(seconds=BATCH_EVERY_S)
    assert max(map(len, node.taken.values())) == limits.FIGURES_PER_SYNC
    assert sum(hosts.get(ALL_HOSTS, empty_row())[REQUESTS] for hosts in node.taken.values()) == 5
    assert node.total == MAX_NAMED_HOSTS + 5


def test_what_no_master_would_take_is_not_told() -> None:
    node = Node()
    node.figures.add(HostUsage(HOST, 1, -1))
    node.figures.add(HostUsage(HOST, 1, 1 << 70))
    node.figures.add(HostUsage(HOST, 1, 0, 0, 0, (0, -5)))
    node.figures.add(HostUsage(HOST, 1))
    node.sync()
    assert node.taken == {}
    node.figures.add(HostUsage(HOST, 1, 2, 0, 1))
    node.sync()
    assert [(row[REQUESTS], row[BLOCKED]) for row in node.taken[1, 1].values()] == [(2, 1)]
