"""`export` of tasks and of groups, to a file that is whole or not there or to standard output; and `quality`."""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, usage_error
from crawlfleet.cli.work import task
from crawlfleet.cli.work.task import TaskId
from crawlfleet.observe.terminal_text import escape_controls

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import QualityView, TaskView
    from crawlfleet.client.types import OnBytes, SavedExport

FORMATS = ("jsonl", "csv", "parquet", "warc")
_BINARY = ("parquet", "warc")

FormatOption = Annotated[
    str | None,
    typer.Option("--format", help=f"{', '.join(FORMATS)}; by the name of the file unless given.", show_default=False),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="A file, written when all is there.", show_default=False)
]
BomOption = Annotated[bool, typer.Option("--bom", help="CSV: begin with the mark that Excel knows UTF-8 by.")]
GuardOption = Annotated[
    bool, typer.Option("--guard", help="CSV: an apostrophe before texts that a spreadsheet would run as a formula.")
]
PagesOption = Annotated[
    bool, typer.Option("--pages", help="Not the items but the notes that crawls kept of their pages (keep_pages).")
]


@api_command(
    task.app,
    "export",
    "crawlfleet task export task-0123456789abcdef --format csv > items.csv",
    "crawlfleet task export task-0123456789abcdef -o items.parquet",
    "crawlfleet task export task-0123456789abcdef -o items.csv --bom --guard",
    "crawlfleet task export task-0123456789abcdef -o pages.warc.gz",
    "crawlfleet task export task-0123456789abcdef -o pages.csv --pages",
)
def export_task(
    call: Call,
    task_id: TaskId,
    format: FormatOption = None,
    output: OutputOption = None,
    bom: BomOption = False,
    guard: GuardOption = False,
    pages: PagesOption = False,
) -> None:
    """Write all items of a task as JSON lines, CSV or Parquet, or its archive as WARC. --json tells what was
    written."""
    options: dict[str, Any] = {
        "format": choose_format(format, output),
        "bom": bom,
        "guard": guard,
        **kind_options(pages),
    }
    if options["format"] == "warc":
        note_missing_archive(call, call.client.get(task_id))
    if output is None:
        write_to_stdout(call, options["format"], lambda: call.client.export(task_id, **options))
        return
    saved = save_with_bar(
        call, output, lambda on_bytes: call.client.save_export(task_id, output, on_bytes=on_bytes, **options)
    )
    call.out.print_answer(
        {"file": str(saved.path), "bytes": saved.bytes, "is_complete": saved.is_complete},
        f"{output}: {saved.bytes} bytes" + ("" if saved.is_complete else "; the task has not completed"),
    )


@api_command(
    task.app, "quality", "crawlfleet task quality task-0123456789abcdef", "crawlfleet task quality task-... --json"
)
def show_quality(call: Call, task_id: TaskId, pages: PagesOption = False) -> None:
    """Tell how good a task's items are: which fields are filled and with what, items per page, duplicates."""
    print_quality(call, call.client.quality(task_id, **kind_options(pages)))


def kind_options(pages: bool) -> dict[str, Any]:
    return {"kind": "pages"} if pages else {}


def print_quality(call: Call, quality: QualityView) -> None:
    if call.out.is_json:
        call.out.print_json(quality)
        return
    about = "" if quality.is_exact else "about "
    call.out.print_record(
        {
            "items": f"{quality.items}" + ("" if quality.is_final else ", and more may come"),
            "pages": f"{about}{quality.pages}",
            "items per page": quality.items_per_page,
            "duplicates": f"{about}{quality.duplicates}",
        }
    )
    call.out.print_table(
        ("FIELD", "FILLED", "TYPES"),
        [
            (field.name, f"{field.fill_rate:.1%}", ", ".join(f"{kind} {count}" for kind, count in field.types.items()))
            for field in quality.fields
        ],
        empty="no fields",
        prose=("TYPES",),
    )


def choose_format(given: str | None, output: Path | None, allowed: tuple[str, ...] = FORMATS) -> Any:
    """Of those in `allowed`. A file whose name says another format would deceive its reader."""
    # The archive of a crawl is called items.warc.gz: of what is compressed the name before decides.
    name = "" if output is None else output.name
    named = Path(name.removesuffix(".gz")).suffix.removeprefix(".")
    if given is None and named and named not in FORMATS:
        usage_error(
            f"--output: {name} ends like none of {', '.join(f'.{allowed_format}' for allowed_format in allowed)}",
            "--format says what to write, whatever the name",
        )
    chosen = given or named or "jsonl"
    if chosen not in allowed:
        option = "--format" if given else "--output"
        usage_error(f"{option}: {chosen!r} is none of {', '.join(allowed)}")
    if name.endswith(".gz") and chosen != "warc":
        usage_error(f"--output: {chosen} is not compressed, as {name} says", "leave out --output and pipe it into gzip")
    return chosen


def note_missing_archive(call: Call, task: TaskView) -> None:
    """Its file is a whole one, without a page in it, and looks as if they were lost."""
    if task.task_type == "web_crawl" and "archive" not in (task.parameters or {}):
        call.out.print_note(
            "note: no pages were kept, so there are none in it: a crawl keeps them with -p archive=warc"
        )


def write_to_stdout(call: Call, format: str, stream: Callable[[], Iterator[bytes]]) -> None:
    """To standard output."""
    if call.out.is_json:
        usage_error("--json tells what was written: name a file with --output")
    if format in _BINARY and sys.stdout.isatty():
        usage_error(f"{format} is not for a terminal: name a file with --output")
    out = typer.get_binary_stream("stdout")
    for data in _escape_stream(stream()) if sys.stdout.isatty() else stream():
        out.write(data)


def _escape_stream(stream: Iterator[bytes]) -> Iterator[bytes]:
    """Text from sites, for a terminal that it must not steer."""
    decode = getincrementaldecoder("utf-8")("replace").decode
    for data in stream:
        yield escape_controls(decode(data)).encode()
    yield decode(b"", final=True).encode()


def save_with_bar(call: Call, output: Path, write: Callable[[OnBytes], SavedExport]) -> SavedExport:
    with call.out.progress_bar() as bar:
        line = bar.add_task("exporting", total=None, note="")

        def show_size(size: int) -> None:
            bar.update(line, note=f"{size / 1e6:.1f} MB")

        try:
            return write(show_size)
        except OSError as exc:
            raise Complaint(f"--output: cannot write {output}: {exc.strerror or exc}") from exc
