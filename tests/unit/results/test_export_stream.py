"""Files made of items: what readers of each format find in them is what was kept, at any size."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.ports.chunk_store import ChunkKind
from crawlfleet.results import parquet_table
from crawlfleet.results.export_stream import ExportOptions, Parts, Source, regroup_lines, start_export
from crawlfleet.results.merged_items import Part, Window


class Kept:
    """Chunks of one execution, made when they are read."""

    trouble = None

    def __init__(self, chunks: Sequence[bytes], again: int = 1) -> None:
        self._chunks = chunks
        self.count_of_chunks = len(chunks) * again
        self.reads = 0

    async def read(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int) -> bytes | None:
        self.reads += 1
        return self._chunks[number % len(self._chunks)] if number < self.count_of_chunks else None

    @property
    def source(self) -> Source:
        return Source(self, Parts(Part(1, 2, self.count_of_chunks)))  # type: ignore[arg-type]


def kept(*items: Any, size: int = 3) -> Kept:
    found = [json.dumps(item, ensure_ascii=False).encode() + b"\n" for item in items]
    return Kept([b"".join(found[at : at + size]) for at in range(0, len(found), size)])


async def wanted() -> None:
    pass


async def made(source: Source, format: Any, **options: Any) -> bytes:
    return b"".join([data async for data in await start_export(source, ExportOptions(format, **options), wanted)])


async def parquet_of(*items: Any) -> Any:
    return pq.read_table(io.BytesIO(await made(kept(*items).source, "parquet")))


async def csv_of(*items: Any, **options: Any) -> list[list[str]]:
    text = (await made(kept(*items).source, "csv", **options)).decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline="")))


ITEMS = [
    {"title": "茶, green", "price": 3, "tags": ["a", "b"], "shop": {"city": "杭州"}, "in_stock": True},
    {"title": 'a "quote"\r\nand a line', "price": 2.5, "tags": [], "in_stock": None},
    {"title": "", "price": None, "late": "x", "mixed": 1},
    {"mixed": "two", "title": "=1+1"},
]


async def test_jsonl_is_what_was_kept() -> None:
    assert [json.loads(line) for line in (await made(kept(*ITEMS).source, "jsonl")).splitlines()] == ITEMS


async def test_csv_has_every_field_as_a_column() -> None:
    head, *rows = await csv_of(*ITEMS)
    assert head == ["title", "price", "tags", "shop", "in_stock", "late", "mixed"]
    assert rows == [
        ["茶, green", "3", '["a","b"]', '{"city":"杭州"}', "true", "", ""],
        ['a "quote"\r\nand a line', "2.5", "[]", "", "", "", ""],
        ["", "", "", "", "", "x", "1"],
        ["=1+1", "", "", "", "", "", "two"],
    ]


async def test_csv_for_spreadsheets() -> None:
    raw = await made(kept(*ITEMS).source, "csv", bom=True, guard=True)
    assert raw.startswith(b"\xef\xbb\xbftitle,")
    rows = await csv_of({"a": "=1+1", "b": "@x", "c": -5, "d": "fine", "e": "-x"}, guard=True)
    assert rows[1] == ["'=1+1", "'@x", "-5", "fine", "'-x"]


async def test_csv_opens_with_pandas() -> None:
    import pandas

    frame = pandas.read_csv(io.BytesIO(await made(kept(*ITEMS).source, "csv")))
    assert list(frame.columns) == ["title", "price", "tags", "shop", "in_stock", "late", "mixed"]
    assert frame["price"].tolist()[:2] == [3.0, 2.5]
    assert frame["title"][1] == 'a "quote"\r\nand a line'


async def test_parquet_has_one_schema_for_all_items() -> None:
    table = await parquet_of(*ITEMS)
    assert {field.name: str(field.type).replace("element", "item") for field in table.schema} == {
        "title": "string",
        "price": "double",
        "tags": "list<item: string>",
        "shop": "string",
        "in_stock": "bool",
        "late": "string",
        "mixed": "string",
    }
    rows = table.to_pylist()
    assert [row["price"] for row in rows] == [3.0, 2.5, None, None]
    assert [row["tags"] for row in rows] == [["a", "b"], [], None, None]
    assert [row["mixed"] for row in rows] == [None, None, "1", "two"]
    assert json.loads(rows[0]["shop"]) == {"city": "杭州"}


async def test_parquet_opens_with_duckdb(tmp_path: Path) -> None:
    import duckdb

    file = tmp_path / "items.parquet"
    file.write_bytes(await made(kept(*ITEMS).source, "parquet"))
    assert duckdb.execute(f"select count(*), sum(price) from '{file}'").fetchall() == [(4, 5.5)]
    file.write_bytes(await made(Kept([]).source, "parquet"))
    assert duckdb.execute(f"select count(*) from '{file}'").fetchall() == [(0,)]


async def test_row_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_table, "GROUP_ROWS", 10)
    monkeypatch.setattr(parquet_table, "CELLS", 10)
    file = pq.ParquetFile(io.BytesIO(await made(kept(*({"n": n, "m": -n} for n in range(95))).source, "parquet")))
    assert file.metadata.num_row_groups == 10
    assert file.read().to_pylist() == [{"n": n, "m": -n} for n in range(95)]


@pytest.mark.parametrize(("format", "expected"), [("jsonl", b""), ("csv", b"_url\r\n")])
async def test_a_task_without_items_is_a_valid_file(format: str, expected: bytes) -> None:
    assert await made(Kept([]).source, format) == expected


async def test_a_parquet_file_without_items_is_valid() -> None:
    assert (await parquet_of()).num_rows == 0
    assert (await parquet_of({}, {})).num_rows == 2


async def test_a_thousand_columns_and_a_field_of_a_megabyte() -> None:
    wide = [{f"field {n}": n, f"only {row}": "x"} for row in range(5) for n in range(1)]
    wide.append({f"field {n}": n for n in range(1_000)} | {"long": "y" * 1_000_000})
    table = await parquet_of(*wide)
    assert (table.num_columns, table.num_rows) == (1_006, 6)
    assert len(table.to_pylist()[-1]["long"]) == 1_000_000
    old = csv.field_size_limit(2_000_000)
    try:
        head, *rows = await csv_of(*wide)
    finally:
        csv.field_size_limit(old)
    assert len(head) == 1_006
    assert {len(row) for row in rows} == {1_006}
    assert len(rows[-1][head.index("long")]) == 1_000_000


async def test_options_of_csv_are_refused_elsewhere() -> None:
    for name, asked in {
        "bom": ExportOptions("parquet", bom=True),
        "guard": ExportOptions("parquet", guard=True),
    }.items():
        with pytest.raises(InvalidInput) as refused:
            asked.check_options()
        assert refused.value.field == name


async def test_items_that_are_gone_are_told_before_the_file_begins() -> None:
    gone = Kept([b"{}\n"])
    source = Source(gone, Parts(Part(1, 2, 5)))  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await start_export(source, ExportOptions("csv"), wanted)


async def test_a_caller_that_left_ends_the_first_pass() -> None:
    class Left(Exception):
        pass

    async def left() -> None:
        raise Left

    many = Kept([b'{"n": 1}\n' * 200_000], again=50)
    with pytest.raises(Left):
        await start_export(many.source, ExportOptions("csv"), left)
    assert many.reads < 5


async def test_both_passes_read_what_there_was_when_the_export_began() -> None:
    windows = [Window([Part(1, 10, 1), Part(2, 20, 0)], 2), Window([], 7), Window([Part(9, 90, 3)], None)]

    async def read_parts(after: TaskId) -> Window:
        return windows[{0: 0, 2: 1, 7: 2}[after]]

    parts = await Parts.read_all(read_parts)
    windows[:] = [Window([Part(1, 11, 5)], None)]
    assert list(parts) == list(parts) == [Part(1, 10, 1), Part(9, 90, 3)]


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 10**6), max_size=20), max_size=10), st.integers(1, 200))
async def test_batches_hold_the_same_lines(chunks: list[list[int]], size: int) -> None:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield b"".join(b'{"n":%d}\n' % n for n in chunk)

    found = [data async for data in regroup_lines(stream(), size)]
    assert all(data.endswith(b"\n") for data in found)
    assert all(len(data) < size + 20 for data in found)
    assert [json.loads(line)["n"] for data in found for line in data.splitlines()] == [
        n for chunk in chunks for n in chunk
    ]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
many_items = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "", "c.d", '"', "茶"]), values, max_size=4), max_size=8
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(many_items)
async def test_whatever_the_items_are_no_value_is_lost(items: list[dict[str, Any]]) -> None:
    """Text of a mixed column is the value's JSON; everything else is the value itself."""
    rows = (await parquet_of(*items)).to_pylist()
    cells = await csv_of(*items)
    assert len(rows) == len(cells) - 1 == len(items)
    for item, row, line in zip(items, rows, cells[1:], strict=True):
        for name, value in item.items():
            assert _same(value, row[name])
            assert _same_text(value, line[cells[0].index(name)])


def _same(value: Any, found: Any) -> bool:
    return bool(found == value) or (isinstance(found, str) and bool(json.loads(found) == value))


def _same_text(value: Any, cell: str) -> bool:
    return cell == ("" if value is None else value) or bool(json.loads(cell) == value)


@pytest.mark.parametrize(
    ("format", "huge_bytes", "made_bytes"),
    # CSV takes its time, most of it in looking for quotes.
    [("jsonl", 200_000_000, 190_000_000), ("csv", 60_000_000, 50_000_000), ("parquet", 200_000_000, 1_000)],
)
async def test_hundreds_of_megabytes_are_exported_in_a_few(format: str, huge_bytes: int, made_bytes: int) -> None:
    item = {"_url": "https://example.com/p/1", "title": "A thing", "price": 12.5, "text": "lorem ipsum " * 800}
    chunk = json.dumps(item).encode() + b"\n"
    chunk *= 256_000 // len(chunk)
    huge = Kept([chunk], again=huge_bytes // len(chunk))
    await made(kept(item).source, format)
    tracemalloc.start()
    try:
        size = 0
        async for data in await start_export(huge.source, ExportOptions(format), wanted):  # type: ignore[arg-type]
            size += len(data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 30_000_000
    # What Arrow holds is not Python's: a row group, and its compressed pages.
    assert pyarrow.default_memory_pool().max_memory() < 200_000_000
    assert size > made_bytes
