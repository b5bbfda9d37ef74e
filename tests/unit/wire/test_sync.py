"""Messages of the sync: a list of masters has a mark of its own."""

import msgspec

from crawlfleet.wire.sync import SyncDown, SyncUp, SyncVerdict, mark_masters


def test_another_list_of_masters_has_another_mark_and_no_list_has_none() -> None:
    lists = [["http://a"], ["http://b"], ["http://a", "http://b"], ["http://ab"]]
    assert len({mark_masters(addresses) for addresses in lists}) == len(lists)
    assert mark_masters(["http://a"]) == mark_masters(["http://a"])
    assert mark_masters([]) == 0


def test_a_message_of_an_earlier_version_has_no_mark_and_one_of_a_later_version_is_read() -> None:
    up = msgspec.json.decode(b"[1,2,3,0,[]]", type=SyncUp)
    assert up.masters_mark == 0
    fields = [*msgspec.to_builtins(SyncDown(SyncVerdict.OK, masters=["http://a"])), "a later field"]
    assert msgspec.json.decode(msgspec.json.encode(fields), type=SyncDown).masters == ["http://a"]
