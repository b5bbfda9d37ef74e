"""Which names have a series of task figures of their own: there are limits on each kind, as anybody invents names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from crawlfleet.model.figures.task_figures import IDLE_MS, OTHER, SERIES_MOST, series_name, split_series
from crawlfleet.model.instants import Instant


@dataclass(frozen=True, slots=True)
class SeriesChoice:
    folded: frozenset[str] = frozenset()
    """Series that have no place, and count as one of the others of their kind."""
    evicted: frozenset[str] = frozenset()
    """Series that gave their place to a new one."""

    def kept_as(self, series: str) -> str:
        """Return the series under which figures of this one are kept."""
        return self.other_series(series) if series in self.folded else series

    @staticmethod
    def other_series(series: str) -> str:
        kind, _, _ = series.partition(":")
        return series_name(kind, OTHER)


def choose_series(changes: Mapping[str, Instant], wanted: Collection[str], now: Instant) -> SeriesChoice:
    """Choose the series in which the wanted ones are kept, given the stored ones and their last changes.

    A series that has a place keeps it. A new one gets a free place, or that of a series that was idle for long and the
    longest of all; if there is none, it is folded into the others of its kind.
    """
    stored: dict[str, list[str]] = defaultdict(list)
    for series in changes:
        stored[_limited_kind(series)].append(series)
    folded, evicted = set[str](), set[str]()
    new: dict[str, list[str]] = defaultdict(list)
    for series in sorted(wanted):
        if series not in changes and (kind := _limited_kind(series)):
            new[kind].append(series)
    for kind, names in new.items():
        free = max(0, SERIES_MOST[kind] - len(stored[kind]))
        idle = sorted(
            (series for series in stored[kind] if changes[series] <= now - IDLE_MS and series not in wanted),
            key=lambda series: (changes[series], series),
        )
        places = free + len(idle)
        folded.update(names[places:])
        evicted.update(idle[: max(0, min(len(names), places) - free)])
    return SeriesChoice(frozenset(folded), frozenset(evicted))


def _limited_kind(series: str) -> str:
    """Return the kind of a series whose number is limited; empty for the others, which always have a place."""
    kind, name = split_series(series) or ("", "")
    return "" if name == OTHER or kind not in SERIES_MOST else kind
