"""Field counts: what each field found, added up over pages, executions and shards, and reported at the end."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

FieldCounts = dict[str, list[int]]
"""Counts per path of a field (`products.price`): matches, records, filled, type errors, ambiguous, dropped."""
COUNT_NAMES = ("matches", "records", "filled", "type_errors", "ambiguous", "dropped")
NEVER_MATCHED = "never matched on "
MAX_NAMED_PATHS = 20
MATCHES, RECORDS, FILLED, TYPE_ERRORS, AMBIGUOUS, DROPPED = range(len(COUNT_NAMES))


def path_counts(field_counts: FieldCounts, path: str) -> list[int]:
    counts = field_counts.get(path)
    if counts is None:
        counts = field_counts[path] = [0] * len(COUNT_NAMES)
    return counts


def add_counts(total: FieldCounts, more: Mapping[str, list[int]]) -> None:
    """Add counts to a total; the sum is the same in any order, and however the pages were split."""
    for path, counts in more.items():
        total[path] = list(map(operator.add, path_counts(total, path), counts))


def report_counts(field_counts: Mapping[str, list[int]]) -> dict[str, dict[str, Any]]:
    """Return the counts in the form for people, which `merge_reports` can add up again."""
    return {path: _describe_counts(counts) for path, counts in field_counts.items()}


def merge_reports(reports: list[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    total: FieldCounts = {}
    for report in reports:
        add_counts(
            total, {path: [int(described.get(name, 0)) for name in COUNT_NAMES] for path, described in report.items()}
        )
    return report_counts(total)


def never_matched(field_counts: Mapping[str, list[int]]) -> list[str]:
    return [path for path, counts in field_counts.items() if not counts[MATCHES]]


def never_matched_note(paths: list[str], pages: int) -> str:
    return f"{NEVER_MATCHED}{'the page' if pages == 1 else f'{pages} pages'}: {', '.join(paths[:MAX_NAMED_PATHS])}"


def _describe_counts(counts: list[int]) -> dict[str, Any]:
    described: dict[str, Any] = {
        name: count
        for name, count in zip(COUNT_NAMES, counts, strict=True)
        if count or name in COUNT_NAMES[: FILLED + 1]
    }
    if counts[RECORDS]:
        described["fill_rate"] = round(counts[FILLED] / counts[RECORDS], 4)
    return described
