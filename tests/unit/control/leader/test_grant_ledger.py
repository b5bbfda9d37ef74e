"""The leader's book of grants: what it makes of what sessions say, over sessions and terms that end."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from crawlfleet.control.leader.grant_ledger import GrantLedger, encode_host_report
from crawlfleet.model.event import Kind
from crawlfleet.model.host import Host, HostLimits, HostNoteKind, HostShare, Units
from crawlfleet.ports.host_store import GrantChange, HostNote, SessionHosts
from crawlfleet.scheduling.hosts.host_backoff import QUIET_MS
from crawlfleet.wire.sync import HostWantBody

HOST = "a.example"
USUAL = HostLimits(10.0, 8, 0.0)


class Leader:
    """A book and the rows it has written; a test moves the time."""

    def __init__(self) -> None:
        self.at, self.now = 50.0, 1_000_000
        self.rows: dict[int, HostShare] = {}
        self.hosts: dict[str, Host] = {}
        self.sessions: dict[int, SessionHosts] = {}
        self.notes: list[HostNote] = []
        self.kinds: list[Kind] = []
        self.take_over()

    def take_over(self) -> None:
        self.book = GrantLedger(Random(1))
        self.book.load_shares(list(self.rows.values()), self.hosts, self.at)

    def says(self, node: int, wanted: int | None = 8, taken: int = 0, session: int = 1, **more: Any) -> None:
        hosts = [] if wanted is None else [HostWantBody(HOST, wanted, **more)]
        granted = self.sessions[node].granted if node in self.sessions else 0
        if node in self.sessions and self.sessions[node].session != session:
            granted = 0
        self.sessions[node] = SessionHosts(node, session, True, 9_000, encode_host_report(taken, hosts), granted)

    def close(self, node: int) -> None:
        self.sessions[node] = self.sessions[node]._replace(is_open=False)

    def look(self, after_s: float = 0.0) -> GrantChange:
        self.at += after_s
        self.now += round(after_s * 1000)
        change = GrantChange()
        self.book.set_defaults(USUAL)
        sessions = list(self.sessions.values())
        if names := self.book.unknown_hosts(sessions, self.notes):
            self.book.load_hosts(names, {name: self.hosts[name] for name in names if name in self.hosts}, self.at)
        self.book.apply_session_reports(sessions, self.at)
        self.book.apply_host_notes(self.notes, self.now, change)
        self.book.divide_budgets(self.now, self.at, change)
        self.notes = []
        self._write(change)
        return change

    def _write(self, change: GrantChange) -> None:
        for share in [*change.new_shares, *change.shares]:
            self.rows[share.id] = share
        for number in change.gone:
            del self.rows[number]
        self.hosts |= {
            host.name: replace(
                self.hosts.get(host.name, host), backoff=host.backoff, crawl_delay_ms=host.crawl_delay_ms
            )
            for host in change.hosts
        }
        for node, session, version in change.versions:
            assert version == self.sessions[node].granted + 1
            assert self.sessions[node].session == session
            self.sessions[node] = self.sessions[node]._replace(granted=version)
        self.kinds += [event.kind for event in change.events]
        used = [share.may_use for share in self.rows.values()]
        assert sum(units.rate for units in used) <= 10
        assert sum(units.concurrency for units in used) <= 8

    def rate(self, node: int, session: int = 1) -> int:
        return sum(row.current.rate for row in self.rows.values() if (row.node, row.session) == (node, session))


def test_one_node_has_all_and_two_have_halves() -> None:
    leader = Leader()
    leader.says(1)
    leader.look()
    assert leader.rate(1) == 10
    leader.says(2)
    leader.look()
    assert (leader.rate(1), leader.rate(2)) == (5, 0)
    leader.says(1, taken=2, is_pending=True)
    leader.look(5.0)
    assert leader.rate(2) == 0
    leader.says(1, taken=2)
    leader.look()
    leader.look(0.9)
    assert leader.rate(2) == 0
    assert leader.book.next_due_at() is not None
    leader.look(0.2)
    assert leader.rate(2) == 5


def test_what_a_node_says_it_does_not_use_is_another_ones_at_once() -> None:
    leader = Leader()
    leader.says(1)
    leader.look()
    leader.says(2)
    leader.look()
    leader.says(1, taken=2, in_use=7, is_pending=True)
    leader.look(0.1)
    assert leader.rate(2) == 0
    leader.says(1, taken=2, in_use=7)
    leader.look(0.1)
    assert (leader.rate(1), leader.rate(2)) == (5, 3)
    leader.look(1.1)
    assert leader.rate(2) == 5


def test_where_requests_are_seconds_apart_the_second_before_says_nothing() -> None:
    leader = Leader()
    leader.hosts[HOST] = Host(HOST, HostLimits(delay_s=4.0))
    leader.says(1)
    leader.look()
    leader.says(2)
    leader.says(1, wanted=0, taken=1, in_use=1)
    leader.look(20.0)
    assert (leader.rate(1), leader.rate(2)) == (0, 0)
    leader.says(1, wanted=0, taken=2, in_use=0)
    leader.look(0.1)
    leader.look(4.0)
    assert leader.rate(2) == 0
    leader.look(0.3)
    assert leader.rate(2) == 1


def test_a_silent_nodes_part_is_free_when_its_session_was_ended() -> None:
    leader = Leader()
    leader.says(1)
    leader.look()
    leader.says(2)
    leader.look(100.0)
    assert leader.rate(2) == 0
    leader.close(1)
    leader.look()
    leader.look(1.1)
    assert (leader.rate(1), leader.rate(2)) == (0, 10)
    assert {row.node for row in leader.rows.values()} == {2}


def test_a_replaced_sessions_part_is_free_after_its_lease() -> None:
    leader = Leader()
    leader.says(1)
    leader.look()
    leader.says(1, session=2)
    leader.look()
    leader.look(9.5)
    assert (leader.rate(1, 1), leader.rate(1, 2)) == (0, 0)
    leader.look(1.0)
    assert leader.rate(1, 2) == 10


def test_a_new_leader_goes_on_from_the_store() -> None:
    leader = Leader()
    leader.says(1)
    leader.look()
    leader.says(2)
    leader.look()
    leader.says(1, taken=2)
    leader.look(0.5)
    leader.take_over()
    leader.look(0.6)
    # The wait for the window begins anew: nobody knows when it began.
    assert leader.rate(2) == 0
    leader.look(1.1)
    assert (leader.rate(1), leader.rate(2)) == (5, 5)


def test_nothing_is_written_while_nothing_changes() -> None:
    leader = Leader()
    leader.says(1)
    leader.look()
    leader.says(1, taken=1, requests=5)
    leader.look()
    assert not leader.look(0.5)
    assert not leader.look(20.0)


def test_a_host_that_nobody_wants_leaves_nothing() -> None:
    leader = Leader()
    leader.says(1)
    leader.look()
    leader.says(1, wanted=None, taken=1)
    change = leader.look()
    assert change.versions == [(1, 1, 2)]
    leader.says(1, wanted=None, taken=2)
    leader.look()
    leader.look(1.1)
    assert (leader.rows, len(leader.book)) == ({}, 0)


def test_a_refusal_takes_all_and_comes_back_with_less() -> None:
    leader = Leader()
    leader.says(1)
    leader.says(2)
    leader.look()
    leader.notes = [HostNote(HOST, HostNoteKind.TOO_MANY, 20_000, 1)] * 3
    change = leader.look()
    assert [(node, session) for node, session, _ in change.versions] == [(1, 1), (2, 1)]
    assert (leader.rate(1), leader.rate(2), leader.kinds) == (0, 0, [Kind.HOST_BACKOFF])
    for node in (1, 2):
        leader.says(node, taken=2)
    leader.look(19.0)
    assert leader.rate(1) == 0
    leader.look(4.0)
    # Half of what is usual, until it was quiet for a while.
    assert leader.rate(1) + leader.rate(2) == 5
    leader.look(QUIET_MS / 1000 + 1)
    assert leader.rate(1) + leader.rate(2) == 10
    assert leader.kinds == [Kind.HOST_BACKOFF, Kind.HOST_FORGIVEN]


def test_a_person_changes_a_budget_while_it_is_in_use() -> None:
    leader = Leader()
    leader.says(1)
    leader.look()
    leader.hosts[HOST] = Host(HOST, HostLimits(rate=3.0))
    leader.notes = [HostNote(HOST, HostNoteKind.CHANGED)]
    leader.look()
    assert leader.rate(1) == 3
    assert next(iter(leader.rows.values())).may_use == Units(10, 8)


def test_what_is_counted_is_counted_once() -> None:
    leader = Leader()
    leader.says(1, requests=5, refused=1)
    leader.look()
    for _ in range(2):
        leader.book.add_request_counts(leader.now, leader.at + 2.0)
        (host,) = leader.look(2.0).hosts
        assert host.requests == 5
    leader.says(1, requests=8, refused=1)
    leader.look()
    leader.book.add_request_counts(leader.now, leader.at + 2.0)
    (host,) = leader.look(2.0).hosts
    assert (host.requests, host.refused, host.recent_milli) == (8, 1, 1_333)
