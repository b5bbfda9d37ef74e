"""Rows by field name."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, Text

from crawlfleet.store.row_codec import JSON, Format, RecordReader, RowCodec, row_writer, sql_values


class Colour(IntEnum):
    RED = 1
    BLUE = 7


class Size(NamedTuple):
    width: int
    height: int = 1
    is_rough: bool = False


@dataclass(frozen=True, slots=True)
class Brick:
    id: int
    colour: Colour
    size: Size
    is_broken: bool
    body: bytes
    tags: tuple[str, ...] = ()
    other: Colour | None = None
    price: float | None = None


class Step(NamedTuple):
    id: int
    colour: Colour
    note: str | None = None


def table(*names: str) -> Table:
    return Table("brick", MetaData(), *(Column(name, Text) for name in names))


BRICKS = Table(
    "brick",
    MetaData(),
    Column("price_cents", Integer),
    Column("other", Integer),
    Column("tags", LargeBinary),
    Column("body", LargeBinary),
    Column("is_broken", Integer),
    Column("tall", Integer),
    Column("width", Integer),
    Column("colour", Integer),
    Column("id", Integer, primary_key=True),
    Column("seen_at", Integer),
)
TAGS = Format(JSON.write, lambda body: tuple(JSON.read(body)) if JSON.read else ())
CENTS = Format(lambda price: round(price * 100), lambda cents: cents / 100)


def codec() -> RowCodec[Brick]:
    return RowCodec(
        BRICKS,
        Brick,
        columns={"size.height": "tall", "price": "price_cents"},
        formats={"tags": TAGS, "price": CENTS},
        omitted=("size.is_rough",),
    )


BRICK = Brick(5, Colour.BLUE, Size(20, 30), True, b"clay", ("a", "b"), None, 1.25)
ROW = (5, 7, 20, 30, 1, b"clay", b'["a","b"]', None, 125)


def test_columns_stand_in_the_order_of_the_fields_whatever_the_order_of_the_table() -> None:
    columns = ("id", "colour", "width", "tall", "is_broken", "body", "tags", "other", "price_cents")
    assert codec().columns == columns
    assert codec().select == ", ".join(columns)
    assert [column.name for column in codec().selected] == list(columns)


def test_values_are_written_as_their_types_are_stored() -> None:
    row = codec().to_row(BRICK)
    assert row == ROW
    assert [type(value) for value in row] == [type(value) for value in ROW]


def test_a_row_becomes_the_record_it_was_made_of() -> None:
    for brick in (BRICK, replace(BRICK, other=Colour.RED, price=None, is_broken=False, tags=())):
        found = codec().from_row(codec().to_row(brick))
        assert found == brick
        assert found.is_broken is brick.is_broken
        assert isinstance(found.colour, Colour)
        assert isinstance(found.size, Size)


def test_bytes_are_bytes_whatever_a_driver_gives() -> None:
    row = dict(zip(codec().columns, ROW, strict=True)) | {"body": memoryview(b"clay")}
    found = codec().from_row(tuple(row.values()))
    assert type(found.body) is bytes
    assert found == BRICK


def test_a_batch_is_as_its_rows_one_by_one() -> None:
    bricks = [replace(BRICK, id=number, is_broken=bool(number % 2)) for number in range(10)]
    assert codec().to_rows(bricks) == [codec().to_row(brick) for brick in bricks]
    assert codec().to_rows(iter(bricks)) == codec().to_rows(bricks)
    assert codec().from_rows(codec().to_rows(bricks)) == bricks
    assert codec().to_rows([]) == []


def test_a_record_that_is_a_tuple_is_a_row_but_for_its_enums() -> None:
    steps = RowCodec(table("id", "colour", "note"), Step)
    row = steps.to_row(Step(1, Colour.RED))
    assert row == (1, 1, None)
    assert type(row[1]) is int
    assert steps.from_row(row) == Step(1, Colour.RED)


def test_some_columns_are_written_in_the_order_they_are_named() -> None:
    some = codec().column_writer("id", "tags", "tall")
    assert some.columns == ("id", "tags", "tall")
    assert some.to_rows([BRICK]) == [(5, b'["a","b"]', 30)]


def test_a_record_with_more_than_the_table_keeps_is_written_by_the_fields_named() -> None:
    writer = row_writer(BRICKS, Brick, {"id": "id", "seen_at": "colour"})
    assert writer.to_rows([BRICK]) == [(5, 7)]
    with pytest.raises(TypeError, match="no columns nothing"):
        row_writer(BRICKS, Brick, {"nothing": "id", "id": "id"})


def test_a_reader_names_what_a_query_has_to_select() -> None:
    reader = RecordReader(Step, {"note": Format(read=str.upper)})
    assert reader.names == ("id", "colour", "note")
    assert reader.from_row((1, 7, "x")) == Step(1, Colour.BLUE, "X")
    assert reader.from_row((1, 7, None)) == Step(1, Colour.BLUE, None)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "tags: a format is needed"),
        ({"formats": {"tags": JSON, "shape": JSON}}, "Brick has no fields shape"),
        ({"formats": {"tags": JSON}}, "no columns or fields .*height"),
        ({"formats": {"tags": JSON}, "columns": {"size.depth": "tall"}}, "no columns or fields .*size.depth"),
        ({"formats": {"tags": JSON}, "omitted": ("colour",)}, "only its last fields"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_codec_is_made(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        RowCodec(BRICKS, Brick, **options)


def test_two_fields_in_one_column_are_refused() -> None:
    with pytest.raises(TypeError, match="two fields in one column"):
        RowCodec(table("id", "colour"), Step, columns={"note": "colour"})


def test_values_in_sql_stand_in_the_order_of_the_columns() -> None:
    assert sql_values(("id", "lane", "status"), {"status": "2", "id": "?1"}, "l.") == "?1, l.lane, 2"
    with pytest.raises(ValueError, match="no such columns: nothing"):
        sql_values(("id",), {"nothing": "1"})
