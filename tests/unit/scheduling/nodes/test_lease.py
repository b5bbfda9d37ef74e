from crawlfleet.ports.node_store import LeaseRow
from crawlfleet.scheduling.nodes.lease import LeaseTracker


def row(node: int = 1, renewals: int = 0, session: int = 1, lease_ms: int = 9_000) -> LeaseRow:
    return LeaseRow(node, session, renewals, lease_ms)


def watched(book: LeaseTracker[LeaseRow], rows: list[LeaseRow], begin: float, end: float) -> None:
    """Look once a second, as the leader does."""
    at = begin
    while at <= end:
        book.observe_leases(rows, at)
        at += 1.0


def test_an_unchanged_counter_expires_after_its_lease() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    watched(book, [row()], 100.0, 108.0)
    assert book.expired_leases(108.99) == []
    assert book.expired_leases(109.0) == [row()]


def test_a_renewal_begins_a_new_lease() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    watched(book, [row(renewals=1)], 0.0, 8.0)
    watched(book, [row(renewals=2)], 9.0, 17.0)
    assert book.expired_leases(17.9) == []
    assert book.expired_leases(18.0) == [row(renewals=2)]


def test_a_new_session_begins_a_new_lease_though_the_counter_is_the_same() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    watched(book, [row(session=1)], 0.0, 8.0)
    watched(book, [row(session=2)], 9.0, 10.0)
    assert book.expired_leases(10.0) == []


def test_each_node_has_its_own_lease() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    slow, fast = row(node=1, lease_ms=90_000), row(node=2)
    watched(book, [slow, fast], 0.0, 12.0)
    assert book.expired_leases(12.0) == [fast]


def test_the_longest_silent_comes_first() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    watched(book, [row(node=1, renewals=1), row(node=2)], 0.0, 1.0)
    watched(book, [row(node=1, renewals=2), row(node=2)], 2.0, 12.0)
    assert [lease.node for lease in book.expired_leases(12.0)] == [2, 1]


def test_a_session_that_is_no_longer_open_is_forgotten() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    watched(book, [row(1), row(2)], 0.0, 9.0)
    book.observe_leases([row(2)], 10.0)
    assert [lease.node for lease in book.expired_leases(10.0)] == [2]
    assert len(book) == 1
    book.observe_leases([row(1), row(2)], 11.0)
    assert [lease.node for lease in book.expired_leases(11.0)] == [2]


def test_forget_ends_the_watch() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    watched(book, [row()], 0.0, 9.0)
    book.forget_node(1)
    book.forget_node(99)
    assert book.expired_leases(9.0) == []


def test_a_fresh_start_gives_everybody_a_whole_lease() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    watched(book, [row()], 0.0, 8.0)
    book.restart_leases(8.5)
    watched(book, [row()], 9.0, 17.0)
    assert book.expired_leases(17.4) == []
    assert book.expired_leases(17.5) == [row()]


def test_a_judge_that_slept_does_not_judge_what_it_then_sees() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker(max_gap_s=5.0)
    watched(book, [row()], 0.0, 4.0)
    book.observe_leases([row()], 60.0)
    assert book.expired_leases(60.0) == []
    watched(book, [row()], 61.0, 68.0)
    assert book.expired_leases(68.9) == []
    assert book.expired_leases(69.0) == [row()]


def test_a_judge_that_slept_after_it_looked_does_not_judge_either() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker(max_gap_s=5.0)
    watched(book, [row()], 0.0, 4.0)
    assert book.expired_leases(60.0) == []


def test_a_gap_that_is_allowed_costs_nobody_anything() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker(max_gap_s=5.0)
    for at in (0.0, 5.0, 10.0):
        book.observe_leases([row()], at)
    assert book.expired_leases(10.0) == [row()]


def test_a_book_that_has_seen_nothing_judges_nothing() -> None:
    book: LeaseTracker[LeaseRow] = LeaseTracker()
    assert book.expired_leases(1_000.0) == []
