"""What commands print: tables for people or JSON for programs on standard output, bars and notes on standard error."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from crawlfleet.cli.exit_codes import print_to_stderr, terminal_width
from crawlfleet.cli.table_layout import GAP, PROSE_LEAST, lay_out, row_lines, wrap_words
from crawlfleet.observe.terminal_text import escape_controls, json_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

T = TypeVar("T")

_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z")

COLOURS = {
    "completed": "green",
    "failed": "red",
    "timeout": "red",
    "cancelled": "yellow",
    "processing": "cyan",
    "retrying": "yellow",
    "online": "green",
    "healthy": "green",
    "degraded": "yellow",
    "unhealthy": "red",
    "offline": "red",
    "unresponsive": "red",
    "maintenance": "yellow",
    "paused": "yellow",
}


class Output:
    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json

    def print_json(self, value: object) -> None:
        """On one line for programs, over several for people."""
        indent = 2 if sys.stdout.isatty() else None
        sys.stdout.write(json_text(to_builtins(value), indent=indent) + "\n")

    def print_json_line(self, value: object) -> None:
        """Write one object of many at once, for a program that reads along."""
        sys.stdout.write(json_text(to_builtins(value)) + "\n")
        sys.stdout.flush()

    def print_text(self, text: str) -> None:
        sys.stdout.write(f"{escape_controls(text)}\n")

    def print_sentence(self, text: str) -> None:
        """A terminal gets it in lines that are broken between words, a pipe in one."""
        for line in wrap_words(text, terminal_width(sys.stdout)):
            self.print_text(line)

    def print_note(self, text: str) -> None:
        print_to_stderr(text)

    def print_answer(self, value: object, text: str) -> None:
        """All of it for a program, a line of it for a person."""
        if self.is_json:
            self.print_json(value)
        else:
            self.print_sentence(text)

    def print_listing(
        self,
        name: str,
        records: Sequence[T],
        columns: Sequence[str],
        row: Callable[[T], Sequence[object]],
        *,
        empty: str = "nothing",
        prose: Collection[str] = (),
        drop: Sequence[str] = (),
    ) -> None:
        """All of them under a name for a program, a table of them for a person."""
        if self.is_json:
            self.print_json({name: records})
        else:
            self.print_table(columns, map(row, records), empty=empty, prose=prose, drop=drop)

    def print_table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        empty: str = "nothing",
        prose: Collection[str] = (),
        drop: Sequence[str] = (),
    ) -> None:
        """A line for each row. A narrow terminal gets fewer columns: those in `drop` are left out in that order, those
        in `prose` may be shortened. What is not a terminal gets all of them."""
        from rich.text import Text

        # An item of results may be a value among objects: it stands in the first column.
        cells = [[*map(_cell_text, row), *[""] * (len(columns) - len(row))] for row in rows]
        if not cells:
            self.print_note(f"{empty}.")
            return
        layout = lay_out(columns, cells, terminal_width(sys.stdout), prose=prose, drop=drop)
        wraps_last = columns[layout.columns[-1]] in prose
        self._print_line(
            Text(
                _join_parts(
                    row_lines([columns[index] for index in layout.columns], layout.widths, wraps_last=False)[0]
                ),
                style="bold",
            )
        )
        for row in cells:
            chosen = [row[index] for index in layout.columns]
            for line in row_lines(chosen, layout.widths, wraps_last=wraps_last):
                self._print_line(Text.assemble(*((part, COLOURS.get(part.strip(), "")) for part in line)))
        if layout.dropped:
            self.print_note(f"(no room for {', '.join(layout.dropped)}; a wider terminal or --json shows all)")

    def _print_line(self, line: Text) -> None:
        line.rstrip()
        self.stdout.print(line, soft_wrap=True)

    def print_record(self, fields: Mapping[str, object]) -> None:
        """One thing: a line per field that has a value."""
        shown_fields = {name: display_text(value) for name, value in fields.items() if value not in (None, "", [], {})}
        width = max(map(len, shown_fields), default=0)
        columns = terminal_width(sys.stdout)
        for name, value in shown_fields.items():
            value_width = None if columns is None else max(PROSE_LEAST, columns - width - GAP)
            # Indented: a line inside a value must not look like a field.
            lines = [line for part in trim_instants(value).split("\n") for line in wrap_words(part, value_width)]
            self.print_text(f"{name:<{width}}  " + f"\n{'':<{width + GAP}}".join(lines))

    @cached_property
    def stdout(self) -> Console:
        from rich.console import Console

        return Console(highlight=False)

    @cached_property
    def stderr(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    def progress_bar(self) -> Progress:
        """On standard error; where that is no terminal the bar is silent and only its end is printed."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        # The bar has the room that the words leave.
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(None, table_column=Column(ratio=1, min_width=4)),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=self.stderr,
            disable=not self.stderr.is_terminal,
            expand=True,
        )


def display_text(value: object) -> str:
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
            return json_text(to_builtins(value)) if value else ""
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case _:
            return escape_controls(str(value))


def _cell_text(value: object) -> str:
    return " ".join(display_text(value).splitlines())


def _join_parts(parts: Sequence[str]) -> str:
    return "".join(parts)


def trim_instants(text: str) -> str:
    """Instants in a text to the second, as `shown` has them."""
    return _INSTANT.sub(r"\1Z", text)


def to_builtins(value: object) -> Any:
    """JSON of whatever a client answers with."""
    import msgspec

    return msgspec.to_builtins(value, enc_hook=str)
