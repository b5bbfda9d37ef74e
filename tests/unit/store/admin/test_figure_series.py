"""Which names have a series of their own: those that have one keep it, and there are never too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.figures.task_figures import IDLE_MS, SERIES_MOST, split_series
from crawlfleet.store.admin.figure_series import choose_series

NOW = 10 * IDLE_MS
KINDS, NUMBERS = st.sampled_from(["type", "queue", "priority"]), st.integers(0, 99)
NAMES = st.tuples(KINDS, NUMBERS).map(lambda pair: f"{pair[0]}:{pair[1]}")
STORED = st.dictionaries(NAMES, st.integers(NOW - 3 * IDLE_MS, NOW), max_size=80).map(
    lambda stored: {name: at for name, at in stored.items() if not _is_over(stored, name)}
)


def _is_over(stored: dict[str, int], name: str) -> bool:
    kind = name.partition(":")[0]
    alike = sorted(other for other in stored if other.startswith(f"{kind}:"))
    return alike.index(name) >= SERIES_MOST[kind]


@given(STORED, st.sets(NAMES, max_size=80))
def test_places_are_kept_given_and_bounded(stored: dict[str, int], wanted: set[str]) -> None:
    choice = choose_series(stored, wanted, NOW)
    after = (set(stored) - choice.evicted) | {choice.kept_as(series) for series in wanted}
    for kind, most in SERIES_MOST.items():
        named = [series for series in after if series.startswith(f"{kind}:") and not series.endswith("~other")]
        assert len(named) <= most
    assert not choice.evicted & wanted
    assert all(stored[series] <= NOW - IDLE_MS for series in choice.evicted)
    assert not choice.folded & stored.keys()
    for series in choice.folded:
        kind, name = split_series(choice.kept_as(series)) or ("", "")
        assert (kind, name) == (series.partition(":")[0], "~other")
        # Nobody is turned away while there is a place, free or idle.
        busy = [other for other in stored if other.startswith(f"{kind}:") and other not in choice.evicted]
        new = [other for other in wanted - stored.keys() - choice.folded if other.startswith(f"{kind}:")]
        assert len(busy) + len(new) == SERIES_MOST[kind]
        assert not any(stored[other] <= NOW - IDLE_MS and other not in wanted for other in busy)


def test_the_one_that_was_idle_the_longest_goes_first() -> None:
    stored = {f"priority:{number}": NOW - IDLE_MS - number for number in range(SERIES_MOST["priority"])}
    choice = choose_series(stored, {"priority:new"}, NOW)
    assert choice.evicted == {f"priority:{SERIES_MOST['priority'] - 1}"}
    assert choice.kept_as("priority:new") == "priority:new"


def test_the_whole_and_the_others_always_have_a_place() -> None:
    stored = {f"type:{number}": NOW for number in range(SERIES_MOST["type"])}
    choice = choose_series(stored, {"*", "type:~other", "type:new"}, NOW)
    assert [choice.kept_as(name) for name in ("*", "type:~other", "type:new")] == ["*", "type:~other", "type:~other"]
