"""Task types: what is not known or does not fit is refused, with the place in the parameters named exactly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crawlfleet.control.task_types import ANYTHING, TaskTypes, shortened
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.answers import Code

CRAWL = {
    "type": "object",
    "required": ["urls"],
    "additionalProperties": False,
    "properties": {
        "urls": {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 50}},
        "depth": {"type": "integer", "minimum": 0},
        "login": {"type": "object", "properties": {"user": {"type": "string"}, "tries": {"type": "integer"}}},
    },
}


@pytest.fixture
def types() -> TaskTypes:
    return TaskTypes({"crawl": CRAWL, "free": ANYTHING, "bare": {}})


def refusal_of(types: TaskTypes, parameters: Any, task_type: str = "crawl") -> tuple[Code, str | None] | None:
    refusal = types.refusal(task_type, msgspec.json.encode(parameters))
    return None if refusal is None else (refusal.code, refusal.field)


def test_an_unknown_type_is_refused_with_those_that_are_known(types: TaskTypes) -> None:
    refusal = types.refusal("crowl", b"{}")
    assert refusal is not None
    assert (refusal.code, refusal.field) == (Code.UNKNOWN_TYPE, "task_type")
    assert refusal.detail == "no task type 'crowl'; known: bare, crawl, free"
    empty = TaskTypes().refusal("crawl", b"{}")
    assert empty is not None
    assert empty.detail.endswith("known: none")


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({}, "parameters"),
        ({"urls": []}, "parameters.urls"),
        ({"urls": "http://a"}, "parameters.urls"),
        ({"urls": ["a", "b", 3]}, "parameters.urls[2]"),
        ({"urls": ["a"], "depth": -1}, "parameters.depth"),
        ({"urls": ["a"], "depth": 1.5}, "parameters.depth"),
        ({"urls": ["a"], "login": {"user": "u", "tries": "many"}}, "parameters.login.tries"),
        ({"urls": ["a"], "dept": 1}, "parameters"),
        ({"urls": ["a", "x" * 51]}, "parameters.urls[1]"),
    ],
)
def test_parameters_are_refused_where_they_do_not_fit(types: TaskTypes, parameters: Any, field: str) -> None:
    assert refusal_of(types, parameters) == (Code.INVALID_INPUT, field)


@pytest.mark.parametrize("parameters", [{"urls": ["a"]}, {"urls": ["a"], "depth": 3, "login": {"other": None}}])
def test_parameters_that_fit_are_taken(types: TaskTypes, parameters: Any) -> None:
    assert refusal_of(types, parameters) is None


@pytest.mark.parametrize("task_type", ["free", "bare"])
def test_a_type_that_asks_for_nothing_takes_every_object(types: TaskTypes, task_type: str) -> None:
    assert refusal_of(types, {"whatever": [1, {"deep": None}]}, task_type) is None


def test_a_newer_schema_takes_the_place_of_the_older(types: TaskTypes) -> None:
    types.learn("crawl", {"type": "object", "required": ["sites"]})
    assert refusal_of(types, {"sites": 1}) is None
    assert refusal_of(types, {"urls": ["a"]}) == (Code.INVALID_INPUT, "parameters")
    assert types.names() == ["bare", "crawl", "free"]
    assert "crawl" in types
    assert "crowl" not in types


@pytest.mark.parametrize("schema", [{"type": 7}, {"type": "wrong"}, {"properties": {"a": {"minimum": "x"}}}])
def test_a_schema_that_is_none_is_refused_and_the_old_one_stays(types: TaskTypes, schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        types.learn("crawl", schema)
    assert raised.value.field == "schema"
    assert "crawl" in str(raised.value)
    assert refusal_of(types, {"urls": ["a"]}) is None


def test_a_refusal_is_short_however_long_what_it_refuses(types: TaskTypes) -> None:
    for parameters in ({"urls": ["x" * 500_000]}, {"urls": 7, "k" * 100_000: 1}, {"urls": list(range(50_000))}):
        refusal = types.refusal("crawl", msgspec.json.encode(parameters))
        assert refusal is not None
        assert len(refusal.detail) <= limits.NAME_CHARS + 3
        assert refusal.field is not None
        assert len(refusal.field) <= limits.NAME_CHARS + 3


def test_shortening_keeps_both_ends() -> None:
    assert shortened("short") == "short"
    text = shortened("begin" + "x" * 10_000 + "end")
    assert text.startswith("begin")
    assert text.endswith("end")
