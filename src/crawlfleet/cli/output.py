"""What commands print: tables for people or JSON for programs on standard output, bars and notes on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from crawlfleet.cli.exits import talk
from crawlfleet.observe.terminal_text import escape_controls, json_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

T = TypeVar("T")

_PIPE_WIDTH = 240
"""Nothing is cut for a reader that is not a terminal."""

COLOURS = {
    "completed": "green", "failed": "red", "timeout": "red", "cancelled": "yellow", "processing": "cyan",
    "retrying": "yellow", "online": "green", "healthy": "green", "degraded": "yellow", "unhealthy": "red",
    "offline": "red", "unresponsive": "red", "maintenance": "yellow", "paused": "yellow",
}  # fmt: skip


class Output:
    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json

    def json(self, value: object) -> None:
        """On one line for programs, over several for people."""
        indent = 2 if sys.stdout.isatty() else None
        sys.stdout.write(json_text(plain(value), indent=indent) + "\n")

    def json_line(self, value: object) -> None:
        """One of many: written at once, for whoever reads along."""
        sys.stdout.write(json_text(plain(value)) + "\n")
        sys.stdout.flush()

    def text(self, text: str) -> None:
        sys.stdout.write(f"{escape_controls(text)}\n")

    def note(self, text: str) -> None:
        talk(text)

    def answer(self, whole: object, text: str) -> None:
        """All of it for a program, a line of it for a person."""
        if self.is_json:
            self.json(whole)
        else:
            self.text(text)

    def listing(
        self, name: str, things: Sequence[T], columns: Sequence[str], row: Callable[[T], Sequence[object]],
        *, empty: str = "nothing",
    ) -> None:  # fmt: skip
        """All of them under a name for a program, a table of them for a person."""
        if self.is_json:
            self.json({name: things})
        else:
            self.table(columns, map(row, things), empty=empty)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "nothing") -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell := shown(value), style=COLOURS.get(cell, "")) for value in row))
        if table.row_count:
            self.stdout.print(table)
        else:
            self.note(f"{empty}.")

    def record(self, fields: Mapping[str, object]) -> None:
        """One thing: a line per field that has a value."""
        width = max((len(name) for name in fields), default=0)
        for name, value in fields.items():
            if value not in (None, "", [], {}):
                # Indented: a line inside a value must not look like a field.
                text = shown(value).replace("\n", "\n" + " " * (width + 2))
                self.text(f"{name:<{width}}  {text}")

    @cached_property
    def stdout(self) -> Console:
        from rich.console import Console

        return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)

    @cached_property
    def stderr(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    def bar(self) -> Progress:
        """On standard error; where that is no terminal the bar is silent and only its end is printed."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        return Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), console=self.stderr, disable=not self.stderr.is_terminal,
        )  # fmt: skip


def shown(value: object) -> str:
    """A value for people, harmless for a terminal."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return escape_controls(value)
        case float():
            return f"{value:g}" if abs(value) < 1e6 else f"{value:,.0f}"
        case Mapping() | list() | tuple():
            return json_text(plain(value)) if value else ""
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        case _:
            return escape_controls(str(value))


def plain(value: object) -> Any:
    """JSON of whatever a client answers with."""
    import msgspec

    return msgspec.to_builtins(value, enc_hook=str)
