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
def export(
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
    asked: dict[str, Any] = {"format": chosen_format(format, output), "bom": bom, "guard": guard, **of_pages(pages)}
    if asked["format"] == "warc":
        note_missing_archive(call, call.client.get(task_id))
    if output is None:
        write_out(call, asked["format"], lambda: call.client.export(task_id, **asked))
        return
    saved = save(call, output, lambda on_bytes: call.client.save_export(task_id, output, on_bytes=on_bytes, **asked))
    call.out.answer(
        {"file": str(saved.path), "bytes": saved.bytes, "is_complete": saved.is_complete},
        f"{output}: {saved.bytes} bytes" + ("" if saved.is_complete else "; the task has not completed"),
    )


@api_command(
    task.app, "quality", "crawlfleet task quality task-0123456789abcdef", "crawlfleet task quality task-... --json"
)
def quality(call: Call, task_id: TaskId, pages: PagesOption = False) -> None:
    """Tell how good a task's items are: which fields are filled and with what, items per page, duplicates."""
    print_quality(call, call.client.quality(task_id, **of_pages(pages)))


def of_pages(pages: bool) -> dict[str, Any]:
    return {"kind": "pages"} if pages else {}


def print_quality(call: Call, found: QualityView) -> None:
    if call.out.is_json:
        call.out.json(found)
        return
    about = "" if found.is_exact else "about "
    call.out.record(
        {
            "items": f"{found.items}" + ("" if found.is_final else ", and more may come"),
            "pages": f"{about}{found.pages}",
            "items per page": found.items_per_page,
            "duplicates": f"{about}{found.duplicates}",
        }
    )
    call.out.table(
        ("FIELD", "FILLED", "TYPES"),
        [
            (one.name, f"{one.fill_rate:.1%}", ", ".join(f"{kind} {count}" for kind, count in one.types.items()))
            for one in found.fields
        ],
        empty="no fields",
        prose=("TYPES",),
    )


def chosen_format(given: str | None, output: Path | None, taken: tuple[str, ...] = FORMATS) -> Any:
    """Of those in `taken`. A file whose name says another format would deceive whoever opens it."""
    # The archive of a crawl is called items.warc.gz: of what is compressed the name before decides.
    name = "" if output is None else output.name
    named = Path(name.removesuffix(".gz")).suffix.removeprefix(".")
    if given is None and named and named not in FORMATS:
        usage_error(
            f"--output: {name} ends like none of {', '.join(f'.{one}' for one in taken)}",
            "--format says what to write, whatever the name",
        )
    found = given or named or "jsonl"
    if found not in taken:
        option = "--format" if given else "--output"
        usage_error(f"{option}: {found!r} is none of {', '.join(taken)}")
    if name.endswith(".gz") and found != "warc":
        usage_error(f"--output: {found} is not compressed, as {name} says", "leave out --output and pipe it into gzip")
    return found


def note_missing_archive(call: Call, task: TaskView) -> None:
    """Its file is a whole one, without a page in it, and looks as if they were lost."""
    if task.task_type == "web_crawl" and "archive" not in (task.parameters or {}):
        call.out.note("note: no pages were kept, so there are none in it: a crawl keeps them with -p archive=warc")


def write_out(call: Call, format: str, stream: Callable[[], Iterator[bytes]]) -> None:
    """To standard output."""
    if call.out.is_json:
        usage_error("--json tells what was written: name a file with --output")
    if format in _BINARY and sys.stdout.isatty():
        usage_error(f"{format} is not for a terminal: name a file with --output")
    out = typer.get_binary_stream("stdout")
    for data in _harmless(stream()) if sys.stdout.isatty() else stream():
        out.write(data)


def _harmless(stream: Iterator[bytes]) -> Iterator[bytes]:
    """Text from sites, for a terminal that it must not steer."""
    decode = getincrementaldecoder("utf-8")("replace").decode
    for data in stream:
        yield escape_controls(decode(data)).encode()
    yield decode(b"", final=True).encode()


def save(call: Call, output: Path, write: Callable[[OnBytes], SavedExport]) -> SavedExport:
    with call.out.bar() as bar:
        line = bar.add_task("exporting", total=None, note="")

        def told(size: int) -> None:
            bar.update(line, note=f"{size / 1e6:.1f} MB")

        try:
            return write(told)
        except OSError as exc:
            raise Complaint(f"--output: cannot write {output}: {exc.strerror or exc}") from exc
