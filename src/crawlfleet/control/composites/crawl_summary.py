"""The summary of a crawl over many nodes: the sums of what its members counted and noted."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.ports.built_in_types import CrawlEngine
from crawlfleet.ports.composite_store import GroupStore

NOTES_MOST = 50
_WINDOW = 100


class _Metrics(msgspec.Struct):
    errors: dict[str, int] = {}
    failures: dict[str, int] = {}
    links_left_out: dict[str, int] = {}
    fields: dict[str, dict[str, float]] = {}
    pages_crawled: int = 0


class _Result(msgspec.Struct):
    metrics: _Metrics
    notes: list[str] = []


_DECODER = msgspec.json.Decoder(_Result)


@dataclass(slots=True)
class CrawlSummary:
    """Figures of the members that completed: a member that was lost has reported none, though its reported pages
    count."""

    errors: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    links_left_out: Counter[str] = field(default_factory=Counter)
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class CrawlSummaries:
    def __init__(self, *, store: GroupStore, engine: CrawlEngine) -> None:
        self._store = store
        self._engine = engine

    async def summarise_crawl(self, group: GroupId) -> CrawlSummary:
        return self._merge_results([result async for result in self._read_results(group)])

    async def _read_results(self, group: GroupId) -> AsyncIterator[bytes]:
        """Yield the results of the executors, for the members that completed."""
        last_task, page_size = 0, _WINDOW
        while page_size == _WINDOW:
            members = await self._store.list_members(group, TaskId(last_task), _WINDOW)
            for member in members:
                if member.result is not None:
                    yield member.result
            last_task, page_size = (members[-1].task if members else last_task), len(members)

    def _merge_results(self, results: Iterable[bytes]) -> CrawlSummary:
        summary, notes, pages = CrawlSummary(), dict[str, None](), 0
        fields: list[Mapping[str, Mapping[str, Any]]] = []
        is_never_note = self._engine.is_never_matched_note
        for encoded in results:
            try:
                result = _DECODER.decode(encoded)
            except msgspec.MsgspecError:
                # The result of a node of another version: its figures are missing, as those of a lost member are.
                continue
            summary.errors.update(result.metrics.errors)
            summary.failures.update(result.metrics.failures)
            summary.links_left_out.update(result.metrics.links_left_out)
            fields.append(result.metrics.fields)
            pages += result.metrics.pages_crawled
            # A rule that never matched in one member may have matched in another.
            notes.update(dict.fromkeys(note for note in result.notes if not is_never_note(note)))
        summary.fields = self._engine.merge_field_counts(fields)
        never = [path for path, counts in summary.fields.items() if not counts["matches"]]
        summary.notes = list(notes)[:NOTES_MOST]
        if never:
            summary.notes.append(self._engine.never_matched_note(never, pages))
        return summary
