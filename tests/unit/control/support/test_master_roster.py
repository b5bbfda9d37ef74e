"""The addresses that go to nodes."""

from crawlfleet.control.support.master_roster import MAX_ADDRESSES, MasterRoster
from crawlfleet.model.installation.master import ALIVE_MS, MasterFigures, MasterIdentity, MasterRecord
from crawlfleet.wire.sync import mark_masters


def record(address: str, silent_ms: int = 0) -> MasterRecord:
    return MasterRecord(MasterIdentity(1, "m", 0, "1", address), 0, silent_ms, MasterFigures())


def test_masters_that_are_alive_and_have_an_address_are_passed_on() -> None:
    roster = MasterRoster()
    assert roster.addresses_unless(0) == []
    roster.update([record("http://b"), record(""), record("http://gone", ALIVE_MS), record("http://a")])
    assert roster.addresses_unless(0) == ["http://a", "http://b"]
    assert roster.addresses_unless(mark_masters(["http://a"])) == ["http://a", "http://b"]


def test_a_node_that_has_the_list_gets_nothing() -> None:
    roster = MasterRoster()
    roster.update([record("http://a")])
    assert roster.addresses_unless(mark_masters(["http://a"])) == []


def test_the_list_is_bounded() -> None:
    roster = MasterRoster()
    roster.update([record(f"http://m{number}") for number in range(MAX_ADDRESSES + 9)])
    assert len(roster.addresses_unless(0)) == MAX_ADDRESSES
