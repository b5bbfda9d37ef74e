"""Field counts: what each field found, added up over pages, executions and shards, and reported at the end."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

Columns = dict[str, list[int]]
"""Counts per path of a field (`products.price`): matches, records, filled, type errors, ambiguous, dropped."""
NAMES = ("matches", "records", "filled", "type_errors", "ambiguous", "dropped")
NEVER = "never matched on "
NAMED = 20
MATCHES, RECORDS, FILLED, TYPE_ERRORS, AMBIGUOUS, DROPPED = range(len(NAMES))


def column(columns: Columns, path: str) -> list[int]:
    found = columns.get(path)
    if found is None:
        found = columns[path] = [0] * len(NAMES)
    return found


def add(total: Columns, more: Mapping[str, list[int]]) -> None:
    """Add counts to a total; the sum is the same in any order, and however the pages were split."""
    for path, counted in more.items():
        total[path] = list(map(operator.add, column(total, path), counted))


def report(columns: Mapping[str, list[int]]) -> dict[str, dict[str, Any]]:
    """Return the counts in the form for people, which `merged` can add up again."""
    return {path: _told(counted) for path, counted in columns.items()}


def merged(reports: list[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    total: Columns = {}
    for one in reports:
        add(total, {path: [int(told.get(name, 0)) for name in NAMES] for path, told in one.items()})
    return report(total)


def never_matched(columns: Mapping[str, list[int]]) -> list[str]:
    return [path for path, counted in columns.items() if not counted[MATCHES]]


def never_note(paths: list[str], pages: int) -> str:
    return f"{NEVER}{'the page' if pages == 1 else f'{pages} pages'}: {', '.join(paths[:NAMED])}"


def _told(counted: list[int]) -> dict[str, Any]:
    told: dict[str, Any] = {
        name: count for name, count in zip(NAMES, counted, strict=True) if count or name in NAMES[: FILLED + 1]
    }
    if counted[RECORDS]:
        told["fill_rate"] = round(counted[FILLED] / counted[RECORDS], 4)
    return told
