"""The export of items or archived responses of one or many tasks as one file, produced while it is sent.

One batch of the file is held in memory at a time. JSON lines and WARC records are passed on as they are stored. A
table (CSV, Parquet) needs its columns first, so that everything is read twice: once for the columns, once for the
rows.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple, Protocol
from uuid import uuid4

from crawlfleet.errors import InvalidInput
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.chunk_store import ChunkKind, ChunkStore
from crawlfleet.results.chunk_reader import Chunks
from crawlfleet.results.csv_table import CsvTable
from crawlfleet.results.merged_items import Part, ReadParts
from crawlfleet.results.page_notes import Which, filter_lines
from crawlfleet.results.parquet_support import INSTALL_PARQUET, is_parquet_installed
from crawlfleet.results.table_columns import Column, Columns
from crawlfleet.version import __version__
from crawlfleet.wire.warc import write_record

BATCH_BYTES = 1 << 20
"""Size of a batch, as JSON; as Python objects it takes several times that."""

Format = Literal["jsonl", "csv", "parquet", "warc"]
MEDIA_TYPES: dict[Format, str] = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "warc": "application/warc",
}


SUFFIXES: dict[Format, str] = {"jsonl": "jsonl", "csv": "csv", "parquet": "parquet", "warc": "warc.gz"}


def chunk_kind(format: Format) -> ChunkKind:
    return "warc" if format == "warc" else "items"


class Table(Protocol):
    """A table file that is written in batches of items. Each call returns the bytes that are ready."""

    def begin_file(self) -> bytes: ...

    def add_lines(self, lines: bytes) -> bytes: ...

    def end_file(self) -> bytes: ...


class Parts:
    """The parts that an export reads, as they were when it began; items that come later belong to a later export.

    Both passes over a group that is still running must find the same items. It takes 32 bytes for each task that left
    items, or for each chunk of a crawl over many nodes.
    """

    def __init__(self, *parts: Part) -> None:
        self._numbers = array("Q")
        for part in parts:
            self.add_part(part)

    @classmethod
    async def read_all(cls, read_parts: ReadParts) -> Parts:
        parts = cls()
        after: TaskId | None = 0
        while after is not None:
            window = await read_parts(after)
            for part in window.parts:
                parts.add_part(part)
            after = window.after
        return parts

    def add_part(self, part: Part) -> None:
        if part.chunks > part.first:
            self._numbers.extend((part.task, part.execution, part.chunks, part.first))

    def __iter__(self) -> Iterator[Part]:
        numbers = self._numbers
        for start in range(0, len(numbers), 4):
            yield Part(*numbers[start : start + 4])


class Source(NamedTuple):
    store: ChunkStore
    parts: Parts
    kind: ChunkKind = "items"
    which: Which = "items"

    async def stream_chunks(self) -> AsyncIterator[bytes]:
        which: Which = self.which if self.kind == "items" else "all"
        for part in self.parts:
            chunks = Chunks(self.store, part.task, part.execution, self.kind, part.chunks)
            async for data in chunks.stream_lines(part.first):
                if lines := filter_lines(data, which):
                    yield lines


@dataclass(frozen=True, slots=True)
class ExportOptions:
    format: Format = "jsonl"
    bom: bool = False
    guard: bool = False
    which: Which = "items"

    def check_options(self) -> None:
        if self.which != "items" and self.format == "warc":
            raise InvalidInput("an archive has no items", field="kind")
        for name in ("bom", "guard"):
            if getattr(self, name) and self.format != "csv":
                raise InvalidInput("only CSV has it", field=name)
        if self.format == "parquet" and not is_parquet_installed():
            raise InvalidInput(
                f"Parquet needs pyarrow, which the master does not have: {INSTALL_PARQUET} there, or take csv or jsonl",
                field="format",
            )


StillWanted = Callable[[], Awaitable[None]]
"""Check that is called now and again during a long pass; it raises when no client waits for the export any more."""


async def start_export(source: Source, options: ExportOptions, still_wanted: StillWanted) -> AsyncIterator[bytes]:
    """Export the source as a stream of pieces of the file; errors that can be found are raised before it is returned.

    Raises InvalidInput for items that make no table.
    """
    match options.format:
        case "jsonl":
            return source.stream_chunks()
        case "warc":
            return _stream_archive(source)
    columns = await find_columns(source, still_wanted)
    return _stream_rows(source, await asyncio.to_thread(_make_table, columns, options))


async def find_columns(source: Source, still_wanted: StillWanted) -> tuple[Column, ...]:
    columns = Columns()
    async for lines in regroup_lines(source.stream_chunks()):
        # In threads, here and below: the event loop of the master has other work meanwhile.
        await asyncio.to_thread(columns.add_lines, lines)
        await still_wanted()
    return columns.list_columns()


async def regroup_lines(stream: AsyncIterator[bytes], size: int = BATCH_BYTES) -> AsyncIterator[bytes]:
    """Regroup lines into pieces of about one size: a chunk may hold one item or eight megabytes of them."""
    held: list[bytes] = []
    held_bytes = 0
    async for data in stream:
        held.append(data)
        held_bytes += len(data)
        if held_bytes < size:
            continue
        lines, start = b"".join(held), 0
        while len(lines) - start >= size:
            end = lines.index(b"\n", start + size - 1) + 1
            yield lines[start:end]
            start = end
        held, held_bytes = [lines[start:]], len(lines) - start
    if held_bytes:
        yield b"".join(held)


async def _stream_archive(source: Source) -> AsyncIterator[bytes]:
    """Stream WARC records as they are stored, after a `warcinfo` record that names the software; it is written even if
    there are no other records."""
    about = f"software: crawlfleet/{__version__}\r\nformat: WARC File Format 1.1\r\n".encode()
    fields = [
        ("WARC-Record-ID", f"<urn:uuid:{uuid4()}>"),
        ("WARC-Date", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")),
        ("Content-Type", "application/warc-fields"),
    ]
    yield write_record("warcinfo", fields, about)
    async for records in source.stream_chunks():
        yield records


def _make_table(columns: tuple[Column, ...], options: ExportOptions) -> Table:
    if options.format == "csv":
        return CsvTable(columns, bom=options.bom, guard=options.guard)
    # pyarrow is an extra that may not be installed, and it takes time to load: import it only for Parquet.
    from crawlfleet.results.parquet_table import ParquetTable

    return ParquetTable(columns)


async def _stream_rows(source: Source, table: Table) -> AsyncIterator[bytes]:
    yield table.begin_file()
    async for lines in regroup_lines(source.stream_chunks()):
        if made := await asyncio.to_thread(table.add_lines, lines):
            yield made
    yield await asyncio.to_thread(table.end_file)
