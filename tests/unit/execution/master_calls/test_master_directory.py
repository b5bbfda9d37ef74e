"""The masters that a node knows: configured ones stay, reported ones come and go, and only good addresses count."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.master_calls.master_directory import (
    FILE,
    MAX_REPORTED,
    MasterDirectory,
    MasterFile,
    next_url,
)
from crawlfleet.wire.sync import mark_masters

A, B, C = "http://a:8000", "http://b:8000", "http://c:8000"


def test_configured_masters_come_first_and_are_never_forgotten() -> None:
    masters = MasterDirectory([A])
    assert masters.update([B, C])
    assert masters.urls == [A, B, C]
    assert masters.update([C])
    assert masters.urls == [A, C]
    assert masters.update([A, C])
    assert masters.urls == [A, C], "a configured one is listed once"


def test_a_list_that_is_empty_or_the_same_changes_nothing() -> None:
    masters = MasterDirectory([A], [B])
    assert not masters.update([])
    assert not masters.update([B])
    assert masters.urls == [A, B]


def test_the_mark_is_that_of_the_list_as_it_was_reported() -> None:
    masters = MasterDirectory([A])
    assert masters.mark == 0
    masters.update([A, B, "ftp://x"])
    assert masters.mark == mark_masters([A, B, "ftp://x"])


def test_a_node_of_https_masters_is_not_led_to_plain_http() -> None:
    masters = MasterDirectory(["https://a"])
    masters.update([B, "https://b/"])
    assert masters.urls == ["https://a", "https://b"]


def test_addresses_that_are_none_are_left_out() -> None:
    masters = MasterDirectory([A])
    masters.update(
        ["", "b:8000", "ftp://b", "http://", "http://u:p@b", "http://b?x=1", "http://b#x", "http://" + "b" * 400, B]
    )
    assert masters.urls == [A, B]


def test_no_more_are_taken_than_the_limit() -> None:
    masters = MasterDirectory([A])
    masters.update([f"http://m{number}" for number in range(MAX_REPORTED + 20)])
    assert len(masters.urls) == 1 + MAX_REPORTED


@given(st.lists(st.lists(st.text(max_size=20) | st.sampled_from([A, B, C]), max_size=40), max_size=5))
def test_whatever_is_reported_the_configured_masters_are_there(reports: list[list[str]]) -> None:
    masters = MasterDirectory([A, B])
    for report in reports:
        masters.update(report)
    assert masters.urls[:2] == [A, B]
    assert len(set(masters.urls)) == len(masters.urls) <= 2 + MAX_REPORTED


def test_the_list_is_there_at_the_next_start(tmp_path: Path) -> None:
    file = MasterFile(tmp_path)
    assert file.load([A]) == []
    MasterDirectory([A], on_change=file.save).update([A, B])
    assert file.load([A]) == [A, B]
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_the_list_of_another_configuration_does_not_count(tmp_path: Path) -> None:
    file = MasterFile(tmp_path)
    file.save([A], [B])
    assert file.load([C]) == []


def test_a_damaged_or_unwritable_file_is_no_obstacle(tmp_path: Path) -> None:
    file = MasterFile(tmp_path)
    (tmp_path / FILE).write_bytes(b"\xff{")
    assert file.load([A]) == []
    MasterFile(tmp_path / "missing").save([A], [B])


def test_the_next_master_is_the_one_behind_it_or_the_first() -> None:
    assert [next_url([A, B, C], url) for url in (A, B, C, "http://gone")] == [B, C, A, A]
