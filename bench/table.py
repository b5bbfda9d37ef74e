"""What the benchmarks print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    what: str
    value: str
    target: str
    is_met: bool | None


def say(line: str) -> None:
    """Progress, beside the table."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def format_table(rows: Sequence[Row]) -> str:
    lines = ["| what | measured | target | |", "|---|---|---|---|"]
    words = {True: "met", False: "missed", None: ""}
    lines += [f"| {row.what} | {row.value} | {row.target} | {words[row.is_met]} |" for row in rows]
    return "\n".join(lines) + "\n"


def print_table(rows: Sequence[Row]) -> None:
    sys.stdout.write(format_table(rows))
