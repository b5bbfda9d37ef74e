"""Which masters are shown, and which count as alive."""

from crawlfleet.model.installation.master import ALIVE_MS, MasterFigures, MasterIdentity, MasterRecord, present_masters


def record(boot: int, name: str, silent_ms: int = 0) -> MasterRecord:
    return MasterRecord(MasterIdentity(boot, name, 0, "1"), 0, silent_ms, MasterFigures())


def test_three_missing_beats_make_a_master_silent() -> None:
    assert record(1, "a", ALIVE_MS - 1).is_alive
    assert not record(1, "a", ALIVE_MS).is_alive


def test_a_silent_start_is_shown_until_the_master_was_started_again() -> None:
    silent, other = record(1, "a", ALIVE_MS), record(2, "b")
    assert present_masters([silent, other]) == [other, silent]
    again = record(3, "a")
    assert present_masters([silent, other, again]) == [again, other]


def test_a_start_that_is_alive_is_shown_beside_a_later_one_of_its_name() -> None:
    first, second = record(1, "a"), record(2, "a")
    assert present_masters([first, second]) == [second, first]


def test_of_several_silent_starts_the_last_one_is_shown() -> None:
    starts = [record(boot, "a", ALIVE_MS) for boot in (1, 2, 3)]
    assert present_masters(starts) == [starts[2]]
