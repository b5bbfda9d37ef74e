"""The body of a submitted task: what is taken is taken unchanged, what cannot be kept is refused with its field."""

import json
import math
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model import limits
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.wire import json_error_location
from crawlfleet.wire.tasks import RETRY_UNSET, TaskBody, read_task, read_tasks, task_body

LEVELS = 10_000


def body(parameters: bytes) -> bytes:
    return b'{"task_type":"echo","parameters":' + parameters + b"}"


def with_field(field: str, value: bytes) -> bytes:
    return b'{"task_type":"echo","' + field.encode() + b'":' + value + b"}"


def taken(raw: bytes) -> TaskBody:
    task = read_task(raw)
    assert isinstance(task, TaskBody), task
    return task


def refused(raw: bytes) -> Refusal:
    refusal = read_task(raw)
    assert isinstance(refusal, Refusal), refusal
    return refusal


def nested(levels: int, opening: bytes = b"[", inner: bytes = b"", closing: bytes = b"]") -> bytes:
    return opening * levels + inner + closing * levels


def test_a_task_needs_nothing_but_its_type() -> None:
    task = taken(b'{"task_type":"echo"}')
    assert task == TaskBody(task_type="echo")
    assert (bytes(task.parameters), task.priority, task.queue, task.retry) == (b"{}", 5, "default", RETRY_UNSET)


def test_every_field_is_taken_unchanged() -> None:
    fields: dict[str, Any] = {
        "task_type": "browser",
        "parameters": {"url": "https://a.example/ä", "depth": 3},
        "project_id": "shop",
        "workflow_id": "w-1",
        "name": "Preise 本",
        "cluster": "eu",
        "priority": 10,
        "min_resources": {"cpu": 1.5, "memory_gb": 2},
        "capabilities": {"js": True, "langs": ["de", "en"]},
        "node_type": "gpu",
        "schedule_strategy": "round_robin",
        "target_region": "eu",
        "require_region": True,
        "content_features": {"a": [1, {"b": None}]},
        "categories": ["x", "y"],
        "queue": "night",
        "depends_on": ["task-0000000000000001"],
        "run_at": "2026-01-31T12:00:00Z",
        "timeout_s": 60,
        "retry": {"max_retries": 0, "base_delay_s": 0.5, "max_delay_s": 1.0},
    }
    task = taken(json.dumps(fields).encode())
    assert msgspec.json.decode(msgspec.json.encode(task)) == fields


def test_parameters_keep_every_byte() -> None:
    raw = b'{ "b" : 1.50 , "a":"\\u00e9\\ud83d\\ude00", "n":-0.0 , "big":9223372036854775807 }'
    assert bytes(taken(body(raw)).parameters) == raw


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcé本", max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abc", max_size=3), JSON, max_size=5))
def test_whatever_a_database_can_hold_is_taken_unchanged(parameters: dict[str, Any]) -> None:
    raw = json.dumps(parameters).encode()
    assert bytes(taken(body(raw)).parameters) == raw
    unescaped = json.dumps(parameters, ensure_ascii=False).encode()
    assert bytes(taken(body(unescaped)).parameters) == unescaped


@given(st.binary(max_size=200))
def test_no_bytes_at_all_break_the_reader(raw: bytes) -> None:
    assert isinstance(read_task(raw), TaskBody | Refusal)
    assert isinstance(read_task(body(raw)), TaskBody | Refusal)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        (rb'{"a":"\u0000"}', "parameters.a"),
        (rb'{"a":[1,{"b":"x\u0000y"}]}', "parameters.a[1].b"),
        (b'{"a":"\x00"}', "parameters"),
        (b'{"a":NaN}', "parameters"),
        (b'{"a":Infinity}', "parameters"),
        (b'{"a":1e999}', "parameters"),
        (b'{"a":-1E+400}', "parameters"),
        (b'{"a":' + b"9" * 40 + b"}", "parameters.a"),
        (b'{"a":-' + b"9" * 40 + b"}", "parameters.a"),
        (b'{"a":9223372036854775808}', "parameters.a"),
        (b'{"a":' + nested(LEVELS) + b"}", "parameters"),
        (nested(LEVELS, b'{"a":', b"1", b"}"), "parameters"),
        (rb'{"a":"\ud800"}', "parameters"),
        (rb'{"a":"\udc00x"}', "parameters"),
        (rb'{"\ud800":1}', "parameters"),
        (b'{"a":"\xed\xa0\x80"}', "parameters"),
        (b'{"a":"\xff"}', "parameters"),
        (b"[1]", "parameters"),
        (b'"text"', "parameters"),
        (b"null", "parameters"),
        (b"7", "parameters"),
    ],
)
def test_parameters_that_cannot_be_kept_are_refused_with_their_place(parameters: bytes, field: str) -> None:
    refusal = refused(body(parameters))
    assert (refusal.code, refusal.field) == (Code.INVALID_INPUT, field)


def test_a_key_with_a_nul_names_the_object_it_stands_in() -> None:
    assert refused(body(rb'{"a":{"b\u0000":1}}')).field == "parameters.a"


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert bytes(taken(body(rb'{"a":"\\u0000"}')).parameters) == rb'{"a":"\\u0000"}'


@pytest.mark.parametrize(("levels", "is_taken"), [(limits.JSON_DEPTH, True), (limits.JSON_DEPTH + 1, False)])
def test_nesting_is_taken_up_to_its_limit(levels: int, is_taken: bool) -> None:
    # The object itself is the first level, its value the second.
    raw = body(b'{"a":' + nested(levels - 1) + b"}")
    assert isinstance(read_task(raw), TaskBody) == is_taken


def test_ten_megabytes_are_too_large() -> None:
    refusal = refused(body(b'{"a":"' + b"x" * (10 << 20) + b'"}'))
    assert (refusal.code, refusal.field) == (Code.TOO_LARGE, "parameters")


def test_parameters_of_just_the_limit_are_taken() -> None:
    raw = b'{"a":"' + b"x" * (limits.PARAMETERS_BYTES - 8) + b'"}'
    assert len(bytes(taken(body(raw)).parameters)) == limits.PARAMETERS_BYTES
    assert refused(body(raw.replace(b"x", b"xx", 1))).code is Code.TOO_LARGE


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", b"11"),
        ("priority", b"0"),
        ("priority", b'"high"'),
        ("priority", b"5.5"),
        ("priority", b"true"),
        ("priority", b"9" * 60),
        ("priority", b"1e999"),
        ("task_type", b'""'),
        ("task_type", b"5"),
        ("task_type", b'"' + b"x" * (limits.LABEL_CHARS + 1) + b'"'),
        ("name", b'"' + b"x" * (limits.NAME_CHARS + 1) + b'"'),
        ("name", rb'"a\u0000b"'),
        ("name", rb'"\ud800"'),
        ("name", b'"\xff"'),
        ("project_id", rb'"\u0000"'),
        ("workflow_id", rb'"\u0000"'),
        ("cluster", rb'"\u0000"'),
        ("queue", rb'"\u0000"'),
        ("queue", b"null"),
        ("node_type", rb'"\u0000"'),
        ("schedule_strategy", rb'"\u0000"'),
        ("target_region", rb'"\u0000"'),
        ("categories", rb'["fine","\u0000"]'),
        ("categories", b"[" + b",".join([b'"x"'] * (limits.LABELS + 1)) + b"]"),
        ("capabilities", rb'{"a\u0000":1}'),
        ("capabilities", rb'{"a":["b","\u0000"]}'),
        ("capabilities", b"{" + b",".join(b'"x%d":1' % n for n in range(limits.LABELS + 1)) + b"}"),
        ("min_resources", rb'{"\u0000":1}'),
        ("content_features", b'{"a":' + nested(LEVELS) + b"}"),
        ("content_features", b'{"a":"' + b"x" * limits.METRICS_BYTES + b'"}'),
        ("depends_on", b"[" + b",".join([b'"x"'] * (limits.PARENTS + 1)) + b"]"),
        ("timeout_s", b"0"),
        ("timeout_s", b"2592001"),
        ("no_such_field", b"1"),
    ],
)
def test_a_bad_field_is_named(field: str, value: bytes) -> None:
    refusal = refused(with_field(field, value))
    assert refusal.code in (Code.INVALID_INPUT, Code.TOO_LARGE)
    assert refusal.field == field


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b'{"parameters":{}}', "task_type"),
        (with_field("retry", b'{"max_retries":101}'), "retry.max_retries"),
        (with_field("retry", b'{"max_retrys":1}'), "retry.max_retrys"),
        (with_field("retry", b'{"base_delay_s":-1}'), "retry.base_delay_s"),
        (with_field("min_resources", b'{"cpu":-1}'), "min_resources[...]"),
        (with_field("capabilities", b'{"langs":[1]}'), "capabilities[...][0]"),
        (with_field("content_features", rb'{"a":"\u0000"}'), "content_features.a"),
        (with_field("categories", b'["a",5]'), "categories[1]"),
    ],
)
def test_a_fault_inside_a_field_is_named_with_its_path(raw: bytes, field: str) -> None:
    assert refused(raw).field == field


@pytest.mark.parametrize("raw", [b"", b"{", b'{"task_type":', b'{"task_type":"x"} x', b"[]", b"5", b"null", b"\xff"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    assert refused(raw).code is Code.INVALID_INPUT


def test_a_name_of_a_megabyte_does_not_come_back_in_the_answer() -> None:
    refusal = refused(body(b'{"' + b"k" * 1_000_000 + rb'":"\u0000"}'))
    assert refusal.field is not None
    assert len(refusal.field) < 300


def test_a_batch_is_read_in_order() -> None:
    raw = b'[{"task_type":"a"},{"task_type":"b"}]'
    assert [task.task_type for task in _taken(read_tasks(raw))] == ["a", "b"]
    assert read_tasks(b" [ ] ") == []


BAD_ITEMS = [
    b"5",
    b"{}",
    b"[]",
    with_field("priority", b"11"),
    with_field("no_such_field", b"1"),
    body(rb'{"a":"\u0000"}'),
    body(b'{"a":NaN}'),
    body(rb'{"a":"\ud800"}'),
    body(b'{"a":"\xff"}'),
    with_field("name", b'"\xff"'),
    body(b'{"a":' + nested(LEVELS) + b"}"),
    body(b'{"a":' + b"9" * 40 + b"}"),
    body(b'{"a":"' + b"x" * limits.PARAMETERS_BYTES + b'"}'),
]


@pytest.mark.parametrize("bad", BAD_ITEMS)
def test_one_bad_task_in_a_batch_is_refused_alone(bad: bytes) -> None:
    first, middle, last = read_tasks(b'[{"task_type":"a"}, ' + bad + b' , {"task_type":"b","name":"[,]\\"{"}]')
    assert isinstance(middle, Refusal)
    assert [task.task_type for task in _taken([first, last])] == ["a", "b"]


def test_one_bad_task_among_a_thousand_is_refused_alone() -> None:
    items = [b'{"task_type":"x"}'] * 1_000
    items[617] = body(b'{"a":NaN}')
    read = read_tasks(b"[" + b",".join(items) + b"]")
    assert [position for position, item in enumerate(read) if isinstance(item, Refusal)] == [617]


@pytest.mark.parametrize("raw", [b"", b"{}", b"null", b"[", b'[{"task_type":"a"},]', b'[{"task_type":"a"}', b"[1] 2"])
def test_what_is_no_array_is_refused_whole(raw: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_tasks(raw)


@pytest.mark.parametrize("raw", [b"[" * (1 << 20), b"[" + b"[]," * (1 << 20), b'["' + b'\\"' * (1 << 20)])
def test_a_body_made_to_cost_time_is_not_searched_for_long(raw: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_tasks(raw)


@given(st.lists(JSON, max_size=6))
def test_the_elements_of_an_array_are_found_by_its_brackets(values: list[Any]) -> None:
    pieces = json_error_location.split_array(json.dumps(values, indent=1).encode())
    assert pieces is not None if values else pieces in (None, [])
    assert [json.loads(piece) for piece in pieces or ()] == values


def test_a_task_from_python_values_is_under_the_same_rules() -> None:
    assert task_body({"task_type": "echo", "priority": 7}) == TaskBody(task_type="echo", priority=7)
    for fields, field in (
        ({"task_type": "echo", "priority": 11}, "priority"),
        ({"task_type": "echo", "name": "\x00"}, "name"),
        ({"task_type": "echo", "parameters": {"a": 2**70}}, "parameters.a"),
    ):
        refusal = task_body(fields)
        assert isinstance(refusal, Refusal)
        assert refusal.field == field


@pytest.mark.parametrize("value", [object(), "\ud800", b"bytes", {1, 2}])
def test_python_values_that_are_no_json_are_refused(value: object) -> None:
    assert isinstance(task_body({"task_type": "echo", "parameters": {"a": value}}), Refusal)


def test_python_values_that_are_not_finite_do_not_become_something_else() -> None:
    refusal = task_body({"task_type": "echo", "parameters": {"a": math.nan, "b": math.inf}})
    assert isinstance(refusal, Refusal)


def _taken(tasks: Iterable[TaskBody | Refusal]) -> list[TaskBody]:
    return [task for task in tasks if isinstance(task, TaskBody)]
