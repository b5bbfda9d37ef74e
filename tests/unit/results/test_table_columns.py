"""What a column holds is decided by all its values together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.errors import InvalidInput
from crawlfleet.results import table_columns as module
from crawlfleet.results.table_columns import Column, Columns, cell_text


def lines(*items: Any) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


def column(*values: Any) -> Column:
    found = Columns()
    for value in values:
        found.add_lines(lines({"x": value}))
    (only,) = found.list_columns()
    return only


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, None, False], Column("x", "boolean")),
        ([1, -5], Column("x", "integer")),
        ([2**62, 1], Column("x", "integer")),
        ([1, 2.5], Column("x", "number")),
        (["a", None], Column("x", "text")),
        ([None], Column("x", "text")),
        # A float would round it: text keeps it.
        ([2**60, 2.5], Column("x", "text", is_plain=False)),
        ([2**64], Column("x", "text", is_plain=False)),
        ([1, "1"], Column("x", "text", is_plain=False)),
        ([True, 1], Column("x", "text", is_plain=False)),
        ([{"a": 1}], Column("x", "text", is_plain=False)),
        ([["a"], [], None, [None, "b"]], Column("x", "text", is_list=True)),
        ([[1], [2.5]], Column("x", "number", is_list=True)),
        ([[1], ["a"]], Column("x", "text", is_plain=False)),
        ([["a"], "a"], Column("x", "text", is_plain=False)),
        ([[["a"]]], Column("x", "text", is_plain=False)),
        ([[{"a": 1}]], Column("x", "text", is_plain=False)),
        ([[]], Column("x", "text", is_plain=False)),
    ],
)
def test_the_type_of_a_column(values: list[Any], expected: Column) -> None:
    assert column(*values) == expected
    assert column(*reversed(values)) == expected


def test_a_field_that_appears_late_is_a_column_too() -> None:
    found = Columns()
    found.add_lines(lines({"a": 1}) * 1_000)
    found.add_lines(lines({"late": 1.5, "a": "x"}))
    assert [(one.name, one.type) for one in found.list_columns()] == [("a", "text"), ("late", "number")]
    assert found.items == 1_001


def test_a_table_without_fields_has_a_column_all_the_same() -> None:
    assert Columns().list_columns() == (Column("_url", "text"),)


def test_more_fields_than_a_table_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COLUMNS_MOST", 10)
    found = Columns()
    found.add_lines(lines({f"f{n}": 1 for n in range(10)}))
    with pytest.raises(InvalidInput) as refused:
        found.add_lines(lines({"one more": 1}))
    assert refused.value.field == "format"


def test_names_are_bounded_in_length_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NAMES_BYTES", 100)
    with pytest.raises(InvalidInput, match="too many for a table"):
        Columns().add_lines(lines({"x" * 101: 1}))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=50)
@given(st.lists(values, max_size=4), st.lists(values, max_size=4))
def test_the_order_of_batches_does_not_matter(first: list[Any], second: list[Any]) -> None:
    def made(*batches: list[Any]) -> set[Column]:
        found = Columns()
        for batch in batches:
            found.add_lines(lines(*({"x": value} for value in batch)))
        return set(found.list_columns())

    assert made(first, second) == made(second, first) == made(first + second)


@settings(max_examples=50)
@given(values)
def test_text_of_a_value_is_the_value(value: Any) -> None:
    made = cell_text(value)
    if value is None or isinstance(value, str):
        assert made == value
    else:
        assert made is not None
        assert json.loads(made) == value
