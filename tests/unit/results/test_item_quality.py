"""How good items are: exact while they are few, near when they are many, always within bounds."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.results import item_quality as module
from crawlfleet.results.item_quality import FieldReport, Quality, Report, Sample


def reported(*items: Any) -> Report:
    quality = Quality()
    quality.add_lines(b"".join(json.dumps(item).encode() + b"\n" for item in items))
    return quality.make_report()


def test_fields_are_counted_by_what_they_hold() -> None:
    found = reported(
        {"title": "a", "price": 0, "ok": False, "tags": []},
        {"title": "", "price": 1.5, "ok": None, "tags": ["x"]},
        {"title": None, "extra": {}},
    )
    assert found.fields == [
        FieldReport("title", 1, {"null": 1, "text": 2}),
        FieldReport("price", 2, {"integer": 1, "number": 1}),
        FieldReport("ok", 1, {"null": 1, "boolean": 1}),
        FieldReport("tags", 1, {"list": 2}),
        FieldReport("extra", 0, {"object": 1}),
    ]
    assert found.items == 3


def test_the_same_item_on_two_pages_is_a_duplicate_in_whatever_order_its_fields_are() -> None:
    found = reported(
        {"_url": "/1", "a": 1, "b": {"x": 1, "y": 2}},
        {"_url": "/2", "b": {"y": 2, "x": 1}, "a": 1},
        {"_url": "/2", "a": 2},
        {"a": 2},
    )
    assert (found.duplicates, found.pages, found.is_exact) == (2, 2, True)


def test_nothing_is_reported_of_nothing() -> None:
    assert reported() == Report(0, 0, 0, True, [], 0)


def test_fields_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIELDS_MOST", 3)
    found = reported({f"f{n}": n for n in range(5)}, {"x" * 2_000: 1})
    assert ([field.name for field in found.fields], found.fields_left_out) == (["f0", "f1", "f2"], 3)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 20)))
def test_few_are_counted_exactly(keys: list[int]) -> None:
    sample = Sample(max_keys=21)
    for key in keys:
        sample.add_key(b"%d" % key)
    assert (sample.distinct_count, sample.repeat_count, sample.is_exact) == (
        len(set(keys)),
        len(keys) - len(set(keys)),
        True,
    )


def test_many_are_estimated_and_that_is_said() -> None:
    sample = Sample(max_keys=2_000)
    for number in range(40_000):
        sample.add_key(b"%d" % number)
        if number % 4 == 0:
            sample.add_key(b"%d" % number)
    assert not sample.is_exact
    assert sample.distinct_count == pytest.approx(40_000, rel=0.1)
    assert sample.repeat_count == pytest.approx(10_000, rel=0.2)


def test_memory_is_bounded_whatever_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    quality = Quality()
    quality._pages, quality._contents = Sample(5_000), Sample(5_000)
    tracemalloc.start()
    try:
        for batch in range(60):
            quality.add_lines(b"".join(b'{"_url":"/%d/%d","n":%d}\n' % (batch, n, n + batch) for n in range(1_000)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000
    assert quality.make_report().items == 60_000
