"""The bookkeeping of connections without a token: who is counted, who has to go, and after how long."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.api.http.connection_table import GRACE_S, ConnectionTable, connection_source
from crawlfleet.bootstrap.connection_guard import (
    IDENTIFIED_READ_S,
    WRITE_TIMEOUT_S,
    ConnectionGuard,
    ConnectionLimits,
    Peer,
    Wait,
)


@dataclass(eq=False)
class One:
    source: str
    waiting_since: float | None = 0.0


@dataclass
class Line:
    """A transport that only notes how it ended."""

    is_aborted: bool = False

    def abort(self) -> None:
        self.is_aborted = True


@dataclass
class Now:
    at: float = 100.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Site:
    limits: ConnectionLimits
    now: Now = field(default_factory=Now)

    def __post_init__(self) -> None:
        self.guard = ConnectionGuard(self.limits, self.now)

    def connect(self, address: str = "10.0.0.1") -> tuple[Peer, Line]:
        line = Line()
        return self.guard.admit_connection(line, address), line


def test_a_newcomer_takes_the_place_of_the_oldest_of_the_address_with_the_most() -> None:
    table: ConnectionTable[One] = ConnectionTable(4, 4)
    many = [One("flood") for _ in range(3)]
    assert [table.add(one) for one in [One("a"), *many]] == [None] * 4
    assert table.add(One("b")) is many[0]
    assert table.add(One("c")) is many[1]
    assert (len(table), table.count("flood"), table.count("a")) == (4, 1, 1)


def test_what_is_being_answered_is_the_last_to_go() -> None:
    table: ConnectionTable[One] = ConnectionTable(2, 2)
    busy, waiting = One("a", None), One("a")
    table.add(busy)
    table.add(waiting)
    assert table.add(One("b")) is waiting


def test_over_the_limit_of_an_address_the_oldest_go_after_a_moment_of_grace() -> None:
    table: ConnectionTable[One] = ConnectionTable(100, 2)
    held = [One("nat", since) for since in (0.0, 0.1, 0.2, 0.3)]
    for one in [*held, One("other", 0.0)]:
        table.add(one)
    assert table.find_excess(GRACE_S - 0.01) == []
    assert table.find_excess(GRACE_S + 0.3) == held[:2]
    held[0].waiting_since = None
    assert table.find_excess(GRACE_S + 0.3) == held[1:3], "one that is being answered is left alone"


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=200))
def test_the_counts_are_those_of_the_connections_held(steps: list[tuple[bool, int]]) -> None:
    table: ConnectionTable[One] = ConnectionTable(8, 3)
    held: list[One] = []
    for is_added, number in steps:
        if is_added:
            displaced = table.add(new := One(str(number)))
            if displaced is not None:
                sizes = {one.source: sum(other.source == one.source for other in held) for one in held}
                assert sizes[displaced.source] == max(sizes.values())
                held.remove(displaced)
            held.append(new)
        elif held:
            gone = held.pop(number % len(held))
            table.discard(gone)
            table.discard(gone)
        assert len(table) == len(held) <= 8
        for source in map(str, range(6)):
            assert table.count(source) == sum(one.source == source for one in held)


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient:x", "testclient:x"),
    ],
)
def test_one_caller_is_one_source(address: str, source: str) -> None:
    assert connection_source(address) == source


def test_a_connection_that_shows_a_token_is_counted_no_more_and_never_displaced() -> None:
    site = Site(ConnectionLimits(unidentified=2, unidentified_per_address=1))
    known = [site.connect() for _ in range(2)]
    for peer, _ in known:
        peer.identify()
        peer.clear_deadline()
    assert site.guard.unidentified == 0
    strangers = [site.connect("10.0.0.2") for _ in range(5)]
    assert [line.is_aborted for _, line in strangers] == [True, True, True, False, False]
    site.now.at += 3_600
    site.guard.sweep()
    assert not any(line.is_aborted for _, line in known)
    assert all(line.is_aborted for _, line in strangers)
    assert site.guard.unidentified == 0


def test_one_address_keeps_its_newest_connections_only() -> None:
    site = Site(ConnectionLimits(unidentified=100, unidentified_per_address=3))
    lines = [site.connect()[1] for _ in range(10)]
    site.guard.sweep()
    assert not any(line.is_aborted for line in lines), "they may still show a token"
    site.now.at += GRACE_S
    site.guard.sweep()
    assert [line.is_aborted for line in lines] == [True] * 7 + [False] * 3


def test_deadlines_are_of_what_the_caller_has_to_do_next() -> None:
    site = Site(ConnectionLimits(head_timeout_s=5))
    peer, line = site.connect()
    over: list[Wait] = []
    peer.on_expiry = over.append
    site.now.at += 4.9
    site.guard.sweep()
    assert over == []
    site.now.at += 0.1
    site.guard.sweep()
    assert over == [Wait.HEAD]
    peer.clear_deadline()
    site.now.at += 3_600
    site.guard.sweep()
    assert over == [Wait.HEAD], "while the server works the caller has no deadline"
    peer.set_deadline(Wait.BODY)
    site.guard.forget_peer(peer)
    peer.set_deadline(Wait.BODY)
    site.now.at += 3_600
    site.guard.sweep()
    assert over == [Wait.HEAD], "a connection that has ended is not waited for"
    assert not line.is_aborted


def test_a_known_caller_may_rest_while_it_reads() -> None:
    site = Site(ConnectionLimits())
    (stranger, _), (known, _) = site.connect(), site.connect()
    known.identify()
    over: list[str] = []
    stranger.on_expiry, known.on_expiry = (lambda _: over.append("stranger")), (lambda _: over.append("known"))
    stranger.set_deadline(Wait.READ)
    known.set_deadline(Wait.READ)
    site.now.at += WRITE_TIMEOUT_S
    site.guard.sweep()
    assert over == ["stranger"]
    stranger.clear_deadline()
    site.now.at += IDENTIFIED_READ_S - WRITE_TIMEOUT_S
    site.guard.sweep()
    assert over == ["stranger", "known"]


def test_strangers_get_half_of_the_files_at_most() -> None:
    limits = ConnectionLimits(unidentified=2_000, unidentified_per_address=800)
    few = limits.within_files(1_024)
    assert (few.unidentified, few.unidentified_per_address) == (512, 512)
    assert limits.within_files(20_000) == limits


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [("10.2.3.4", True), ("::ffff:10.2.3.4", True), ("11.2.3.4", False), ("::1", False), ("", False)],
)
def test_addresses_outside_the_allowed_networks_may_not_connect(address: str, is_allowed: bool) -> None:
    limits = ConnectionLimits(networks=(ip_network("10.0.0.0/8"),))
    assert Site(limits).guard.may_connect(address) is is_allowed
    assert Site(ConnectionLimits()).guard.may_connect(address)
