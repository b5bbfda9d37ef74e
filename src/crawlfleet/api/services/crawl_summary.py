"""What the members of a crawl over many nodes told of it, as one: each has counted for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from crawlfleet.execution.crawl.parse.extract import field_counts

NOTES_MOST = 50


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
class Told:
    """Of the members that completed: a member that was lost told nothing, though its reported pages count."""

    errors: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    links_left_out: Counter[str] = field(default_factory=Counter)
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def told_by(results: Iterable[bytes]) -> Told:
    found, notes, pages = Told(), dict[str, None](), 0
    fields: list[Mapping[str, Mapping[str, Any]]] = []
    for result in results:
        try:
            one = _DECODER.decode(result)
        except msgspec.MsgspecError:
            # Of a node of another version: its figures are missing, as those of a lost member are.
            continue
        found.errors.update(one.metrics.errors)
        found.failures.update(one.metrics.failures)
        found.links_left_out.update(one.metrics.links_left_out)
        fields.append(one.metrics.fields)
        pages += one.metrics.pages_crawled
        # What never matched in one member may have matched in another.
        notes.update(dict.fromkeys(note for note in one.notes if not note.startswith(field_counts.NEVER)))
    found.fields = field_counts.merged(fields)
    never = [path for path, told in found.fields.items() if not told["matches"]]
    found.notes = [*list(notes)[:NOTES_MOST], *([field_counts.never_note(never, pages)] if never else [])]
    return found
