"""Task types: what is not known or does not fit is refused, with the place in the parameters named exactly."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.control.tasks.task_types import (
    ANYTHING,
    ERRORS_MOST,
    SCHEMA_BYTES,
    TYPES_MOST,
    KnownTypes,
    TaskTypes,
    check_types,
    release_number,
)
from crawlfleet.errors import InvalidInput
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.executors.inside.parameter_check import build_check
from crawlfleet.execution.sdk import TaskError
from crawlfleet.model import limits
from crawlfleet.model.refusal import Code
from crawlfleet.ports.admin_store import MASTERS, TypeRecord
from crawlfleet.wire.schema_errors import shorten_text
from testkit.clock import FakeClock
from tests.unit.control.tasks.test_schema_cost import unfolding
from tests.unit.store.store_kit import sqlite_kit

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
    refusal = types.find_refusal(task_type, msgspec.json.encode(parameters))
    return None if refusal is None else (refusal.code, refusal.field)


def test_an_unknown_type_is_refused_with_those_that_are_known(types: TaskTypes) -> None:
    refusal = types.find_refusal("crowl", b"{}")
    assert refusal is not None
    assert (refusal.code, refusal.field) == (Code.UNKNOWN_TYPE, "task_type")
    assert refusal.detail == "no task type 'crowl'; did you mean crawl?"
    assert (other := types.find_refusal("zzz", b"{}")) is not None
    assert other.detail == "no task type 'zzz'; there are bare, crawl, free"
    empty = TaskTypes().find_refusal("crawl", b"{}")
    assert empty is not None
    assert empty.detail.endswith("there are none")


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


@pytest.mark.parametrize(
    ("parameters", "field", "detail"),
    [
        ({}, "", "needs url or urls"),
        ({"url": "example.com"}, ".url", "'example.com' is not an http or https URL with a host"),
        ({"traps": {"calendar": -1}}, ".traps.calendar", "must be at least 1, not -1"),
        ({"traps": 5}, ".traps", "must be true or false or an object, not 5"),
        ({"sitemaps": ["nope"]}, ".sitemaps[0]", "'nope' is not an http or https URL with a host"),
        ({"follow": {"allow": [""]}}, ".follow.allow[0]", "must not be empty"),
        ({"follow": {"allow": [{}]}}, ".follow.allow[0]", "needs pattern"),
        (
            {"follow": {"hosts": ["a/b"]}},
            ".follow.hosts[0]",
            "'a/b' is not the name of a host, or *.name for all below it",
        ),
        ({"profile": "netscape"}, ".profile", "'netscape' is none of crawlfleet, chrome, firefox, safari, mobile"),
        ({"profile": 5}, ".profile", "5 is none of crawlfleet, chrome, firefox, safari, mobile"),
        ({"profile": []}, ".profile", "must not be empty"),
        ({"proxies": {}}, ".proxies", "needs urls or pool"),
        ({"proxies": {"pool": "a", "rotation": "b"}}, ".proxies.rotation", "'b' is none of request, host, session"),
        ({"proxies": {"pool": "a", "urls": ["http://a.test"]}}, ".proxies", "pool and urls do not go together"),
        ({"proxies": {"pool": "a", "x": 1, "urls": ["http://a.test"]}}, ".proxies", "there is no 'x'"),
        ({"follow": {"scope": "galaxy"}}, ".follow.scope", "'galaxy' is none of host, subdomains, domain, any"),
        (
            {"selectors": {"_url": "a"}},
            ".selectors",
            "'_url' is not a name of 1 to 64 characters without spaces that does not begin with _",
        ),
        (
            {"extract": {"a b": {"fields": {"c": "d"}}}},
            ".extract",
            "'a b' is not a name of 1 to 64 characters without spaces that does not begin with _",
        ),
        (
            {"normalise": {"sort": True}},
            ".normalise",
            "there is no 'sort'; there are strip_tracking, strip_sessions, sort_query, strip",
        ),
    ],
)
def test_a_refusal_speaks_to_people_and_names_the_alternative_that_was_meant(
    parameters: Any, field: str, detail: str
) -> None:
    asked = parameters if "url" in parameters or not parameters else {"url": "http://a.test/", **parameters}
    refusal = TaskTypes({"web_crawl": WebCrawl.schema}).find_refusal("web_crawl", msgspec.json.encode(asked))
    assert refusal is not None
    assert (refusal.field, refusal.detail) == (f"parameters{field}", detail)
    with pytest.raises(TaskError) as raised:
        build_check(WebCrawl)(asked)
    assert str(raised.value) == f"parameters{field}: {detail}"


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"type": "object"}, {"minProperties": 0}]},
        {"anyOf": [False, {"not": {}}]},
        {"properties": {"a": {"$ref": "#/$defs/one"}}, "$defs": {"one": {"anyOf": [{"enum": [1]}, {"const": 2}]}}},
        {"additionalProperties": False},
        {"patternProperties": {"^b": {}}, "additionalProperties": {"type": "string", "pattern": "x"}},
        {"propertyNames": {"pattern": "^x$"}},
        {"unevaluatedProperties": False},
        {"dependentRequired": {"a": ["b"]}},
    ],
)
def test_whatever_a_schema_asks_for_there_are_words_for_it(schema: dict[str, Any]) -> None:
    refusal = TaskTypes({"own": schema}).find_refusal("own", b'{"a": "y"}')
    assert refusal is not None
    assert refusal.detail


@pytest.mark.parametrize("parameters", [{"urls": ["a"]}, {"urls": ["a"], "depth": 3, "login": {"other": None}}])
def test_parameters_that_fit_are_taken(types: TaskTypes, parameters: Any) -> None:
    assert refusal_of(types, parameters) is None


@pytest.mark.parametrize("task_type", ["free", "bare"])
def test_a_type_that_asks_for_nothing_takes_every_object(types: TaskTypes, task_type: str) -> None:
    assert refusal_of(types, {"whatever": [1, {"deep": None}]}, task_type) is None


def test_a_newer_schema_takes_the_place_of_the_older(types: TaskTypes) -> None:
    types.add_type("crawl", {"type": "object", "required": ["sites"]})
    assert refusal_of(types, {"sites": 1}) is None
    assert refusal_of(types, {"urls": ["a"]}) == (Code.INVALID_INPUT, "parameters")
    assert types.list_names() == ["bare", "crawl", "free"]
    assert "crawl" in types
    assert "crowl" not in types


@pytest.mark.parametrize("schema", [{"type": 7}, {"type": "wrong"}, {"properties": {"a": {"minimum": "x"}}}])
def test_a_schema_that_is_none_is_refused_and_the_old_one_stays(types: TaskTypes, schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        types.add_type("crawl", schema)
    assert raised.value.field == "schema"
    assert "crawl" in str(raised.value)
    assert refusal_of(types, {"urls": ["a"]}) is None


def test_a_refusal_is_short_however_long_what_it_refuses(types: TaskTypes) -> None:
    for parameters in ({"urls": ["x" * 500_000]}, {"urls": 7, "k" * 100_000: 1}, {"urls": list(range(50_000))}):
        refusal = types.find_refusal("crawl", msgspec.json.encode(parameters))
        assert refusal is not None
        assert len(refusal.detail) <= 5 * (2 * limits.NAME_CHARS + 10)
        assert refusal.field is not None
        assert len(refusal.field) <= limits.NAME_CHARS + 3


def test_every_entry_that_is_wrong_is_told_and_the_shape_that_was_meant() -> None:
    url = {"type": "string", "pattern": "^http", "description": "a URL"}
    shape = {"anyOf": [{"type": "array", "items": url, "minItems": 1}, {"type": "object", "required": ["pool"]}]}
    types = TaskTypes({"crawl": {"type": "object", "properties": {"urls": {"items": url}, "proxies": shape}}})

    def told(parameters: dict[str, Any]) -> tuple[str | None, str]:
        refusal = types.find_refusal("crawl", msgspec.json.encode(parameters))
        assert refusal is not None
        return refusal.field, refusal.detail

    assert told({"urls": ["x", "http://a", "y"]}) == (
        "parameters.urls[0]",
        "'x' is not a URL; urls[2]: 'y' is not a URL",
    )
    assert told({"urls": ["x"] * 10})[1].endswith("; and 5 more")
    assert told({"urls": ["x"] * (ERRORS_MOST + 1)})[1].endswith(f"; and {ERRORS_MOST - 5} more, at least")
    assert told({"proxies": ["http://a", "x"]}) == ("parameters.proxies[1]", "'x' is not a URL")
    assert told({"proxies": {}}) == ("parameters.proxies", "needs pool")
    assert told({"proxies": 5}) == ("parameters.proxies", "must be a list or an object, not 5")


def test_shortening_keeps_both_ends() -> None:
    assert shorten_text("short") == "short"
    text = shorten_text("begin" + "x" * 10_000 + "end")
    assert text.startswith("begin")
    assert text.endswith("end")


# -- what a schema may not do


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/schema", "file:///etc/passwd", "https://example.com/s.json"])
def test_a_schema_is_never_fetched(types: TaskTypes, address: str) -> None:
    with pytest.raises(InvalidInput, match="disabled"):
        types.add_type("crawl", {"properties": {"a": {"$ref": address}}})


def test_no_pattern_takes_for_ever(types: TaskTypes) -> None:
    types.add_type("crawl", {"properties": {"a": {"pattern": "^(a+)+$"}}})
    assert refusal_of(types, {"a": "a" * 5_000 + "b"}) == (Code.INVALID_INPUT, "parameters.a")


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("schemas", "field"),
    [
        ({"": {}}, "task_types"),
        ({"n" * (limits.LABEL_CHARS + 1): {}}, "task_types"),
        ({"a\x00": {}}, "task_types"),
        ({f"type {n}": {} for n in range(TYPES_MOST + 1)}, "task_types"),
        ({"echo": {}, "bad": {"type": "wrong"}}, "task_types.bad"),
        ({"bad": ["type"]}, "task_types.bad"),
        ({"bad": {"title": "x" * SCHEMA_BYTES}}, "task_types.bad"),
        ({"bad": nested(limits.JSON_DEPTH + 1)}, "task_types.bad"),
        ({"bad": {"minimum": object()}}, "task_types.bad"),
        ({"bad": {"$ref": "http://127.0.0.1:1/"}}, "task_types.bad"),
        ({"bad": unfolding(30)}, "task_types.bad"),
    ],
)
def test_what_a_node_brings_along_is_checked(schemas: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        check_types(schemas)
    assert raised.value.field == field
    assert len(raised.value.detail) < 1_000


def test_types_that_are_well_are_taken() -> None:
    check_types({"crawl": CRAWL, "free": {}, "n" * limits.LABEL_CHARS: nested(20)})


# -- what the store knows


@pytest.fixture
def described() -> TaskTypes:
    """With a type that is not built in."""
    types = TaskTypes()
    types.add_type("crawl", CRAWL)
    return types


def test_only_newer_versions_are_taken(described: TaskTypes) -> None:
    types = described
    wants = {"sites": {"required": ["sites"]}, "pages": {"required": ["pages"]}}
    types.learn_records([TypeRecord("crawl", 2, wants["sites"], 0)])
    assert refusal_of(types, {"sites": 1}) is None
    types.learn_records([TypeRecord("crawl", 1, wants["pages"], 0), TypeRecord("crawl", 2, wants["pages"], 0)])
    assert refusal_of(types, {"sites": 1}) is None
    types.learn_records([TypeRecord("crawl", 3, wants["pages"], 0)])
    assert refusal_of(types, {"sites": 1}) is not None


def test_a_schema_that_this_version_does_not_understand_leaves_the_old_one(described: TaskTypes) -> None:
    types = described
    types.learn_records([TypeRecord("crawl", 2, {"type": "unheard of"}, 0), TypeRecord("new", 1, {}, 0)])
    assert refusal_of(types, {"urls": ["a"]}) is None
    assert "new" in types


def test_a_built_in_type_is_changed_by_a_later_release_only() -> None:
    release, other = 5, {"required": ["sites"]}
    types = TaskTypes({"crawl": CRAWL}, release=release)
    for owner, revision in [(0, 0), (77, release + 1), (MASTERS, release), (MASTERS, release - 1)]:
        types.learn_records([TypeRecord("crawl", 9, other, 0, owner, revision)])
        assert refusal_of(types, {"urls": ["a"]}) is None
    types.learn_records([TypeRecord("crawl", 9, other, 0, MASTERS, release + 1)])
    assert refusal_of(types, {"sites": 1}) is None


def test_a_stored_schema_without_bounds_harms_nobody() -> None:
    types = TaskTypes()
    types.learn_records([TypeRecord("hostile", 1, unfolding(30), 0), TypeRecord("fine", 1, CRAWL, 0)])
    assert refusal_of(types, {"any": 1}, "hostile") is None
    assert refusal_of(types, {}, "fine") is not None


def test_parameters_that_would_take_too_long_are_refused_for_their_size() -> None:
    types = TaskTypes()
    types.add_type("costly", {"properties": {"a": {"items": {"allOf": [{"type": "integer"}] * 200}}}})
    assert refusal_of(types, {"a": [1] * 1_000}, "costly") is None
    refusal = types.find_refusal("costly", msgspec.json.encode({"a": [1] * 400_000}))
    assert refusal is not None
    assert (refusal.code, refusal.field) == (Code.TOO_LARGE, "parameters")


def test_of_large_parameters_the_first_error_is_told() -> None:
    types = TaskTypes({"many": {"properties": {"a": {"items": {"type": "string"}}}}})
    refusal = types.find_refusal("many", msgspec.json.encode({"a": [1] * 500_000}))
    assert refusal is not None
    assert (refusal.field, refusal.detail) == ("parameters.a[0]", "must be a text, not 1")


@pytest.mark.parametrize(
    ("version", "number"), [("1.4.2", 1_004_002), ("0.1.0", 1_000), ("2.0", 2_000_000), ("1.2.3.dev4", 1_002_003)]
)
def test_releases_have_an_order(version: str, number: int) -> None:
    assert release_number(version) == number


async def test_masters_learn_from_each_other_through_the_store(tmp_path: Path) -> None:
    async with sqlite_kit(tmp_path) as kit:
        clock = FakeClock()
        one, two = (KnownTypes(TaskTypes({"echo": {}}), store=kit.store, clock=clock) for _ in range(2))
        await one.seed_types({"echo": {}})
        await one.put_types({"crawl": CRAWL}, await kit.join())
        assert "crawl" in one.types
        assert "crawl" not in two.types
        assert await two.refresh(1)
        assert refusal_of(two.types, {}) == (Code.INVALID_INPUT, "parameters")
        assert not await two.refresh(1)
        clock.advance(1)
        assert await two.refresh(1)


async def test_a_type_that_is_only_named_takes_anything_until_it_is_described(tmp_path: Path) -> None:
    async with sqlite_kit(tmp_path) as kit:
        clock = FakeClock()
        one, two = (KnownTypes(TaskTypes(), store=kit.store, clock=clock) for _ in range(2))
        await one.put_names(["crawl", "free"])
        assert refusal_of(one.types, {"any": 1}) is None
        await two.put_types({"crawl": CRAWL}, await kit.join())
        await one.put_names(["crawl", "free"])
        await one.refresh(0)
        assert len(await kit.store.task_types()) == 2
        assert refusal_of(one.types, {"any": 1}) == (Code.INVALID_INPUT, "parameters")


async def test_many_that_look_at_once_share_a_look() -> None:
    class Slow:
        looks = 0

        async def task_types(self) -> list[TypeRecord]:
            self.looks += 1
            await asyncio.sleep(0)
            return [TypeRecord("crawl", 1, CRAWL, 0)]

    store = Slow()
    known = KnownTypes(TaskTypes(), store=store, clock=FakeClock())  # type: ignore[arg-type]
    assert all(await asyncio.gather(*(known.refresh(1) for _ in range(10))))
    assert store.looks == 1


def test_a_pattern_is_told_by_what_the_schema_says_is_meant() -> None:
    schema = {"properties": {"url": {"pattern": "^http", "description": "an address"}, "code": {"pattern": "^x"}}}
    types = TaskTypes({"visit": schema})
    described, bare = types.find_refusal("visit", b'{"url": "ftp:"}'), types.find_refusal("visit", b'{"code": "y"}')
    assert described is not None
    assert (described.detail, described.field) == ("'ftp:' is not an address", "parameters.url")
    assert bare is not None
    assert bare.detail == "'y' does not match ^x"
