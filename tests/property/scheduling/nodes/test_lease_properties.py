from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.execution.agent.work.lease_guard import NodeLease
from crawlfleet.ports.node_store import LeaseRow
from crawlfleet.scheduling.nodes.lease import LeaseTracker
from testkit.clock import FakeClock

SETTINGS = settings(max_examples=200, derandomize=True, database=None)
LEASE_S = 9.0
TICK_S = 0.5

# Spans in ticks: how long after one sync the next is sent, how long it takes to commit, and to be answered.
syncs = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8), st.integers(0, 8)), max_size=12)
looks = st.lists(st.integers(1, 24), min_size=10, max_size=60)


def moments(gaps: Iterable[int]) -> list[int]:
    at, all_at = 0, []
    for gap in gaps:
        at += gap
        all_at.append(at)
    return all_at


@SETTINGS
@given(syncs, looks)
def test_a_node_has_stopped_before_its_work_is_given_away(
    renewed: list[tuple[int, int, int]], watched: list[int]
) -> None:
    sent = moments(gap for gap, _, _ in renewed)
    committed = [at + commit for at, (_, commit, _) in zip(sent, renewed, strict=True)]
    answered = [at + answer for at, (_, _, answer) in zip(committed, renewed, strict=True)]
    book: LeaseTracker[LeaseRow] = LeaseTracker(max_gap_s=5.0)
    for now in moments(watched):
        renewals = sum(at <= now for at in committed)
        book.observe_leases([LeaseRow(1, 1, renewals, int(LEASE_S * 1000))], now * TICK_S)
        if book.expired_leases(now * TICK_S):
            clock = FakeClock()
            clock.advance(now * TICK_S)
            lease = NodeLease(clock)
            lease.start(LEASE_S, 0.0)
            for sent_at, answered_at in zip(sent, answered, strict=True):
                if answered_at <= now:
                    lease.renew(sent_at * TICK_S)
            assert lease.stop_at is not None
            assert lease.stop_at <= now * TICK_S - 2.0
            assert lease.is_over
            return


@SETTINGS
@given(st.lists(st.integers(1, 6), min_size=40, max_size=80), st.lists(st.integers(1, 10), min_size=40, max_size=80))
def test_a_node_that_syncs_in_time_is_never_given_up(gaps: list[int], watched: list[int]) -> None:
    """Renewals at most 3 s apart, whatever the judge's rhythm."""
    renewed = moments(gaps)
    book: LeaseTracker[LeaseRow] = LeaseTracker(max_gap_s=5.0)
    for now in moments(watched):
        if now > renewed[-1]:
            break
        renewals = sum(at <= now for at in renewed)
        book.observe_leases([LeaseRow(1, 1, renewals, int(LEASE_S * 1000))], now * TICK_S)
        assert book.expired_leases(now * TICK_S) == []


@SETTINGS
@given(st.lists(st.integers(1, 10), min_size=40, max_size=80))
def test_a_silent_node_is_found_within_a_lease_and_one_look(watched: list[int]) -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker(max_gap_s=5.0)
    row = LeaseRow(1, 1, 0, int(LEASE_S * 1000))
    seen = moments(watched)
    for now in seen:
        book.observe_leases([row], now * TICK_S)
        is_over = (now - seen[0]) * TICK_S >= LEASE_S
        assert book.expired_leases(now * TICK_S) == ([row] if is_over else [])
