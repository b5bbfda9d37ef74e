"""What is wrong with a field, in words that name no validator."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.model.refusal import Refusal
from crawlfleet.wire.field_messages import did_you_mean, model_message, unknown_name
from crawlfleet.wire.json_error_location import find_decode_error
from crawlfleet.wire.schedules import ScheduleBody
from crawlfleet.wire.tasks import read_task, refusal_from_error

LIBRARY_WORDS = re.compile(
    r"`|Expected|[Ii]nput should|Extra inputs|Object (contains|missing)|of type|schema|\bstr\b|\bint\b"
)


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        ('{"task_type": 5}', "task_type", "must be a text, not a whole number"),
        ("{}", "task_type", "is needed"),
        ('{"task_type": "a", "priorty": 3}', "priorty", "there is no 'priorty'; did you mean priority?"),
        (
            '{"task_type": "a", "retry": {"max_retires": 1}}',
            "retry.max_retires",
            "there is no 'max_retires'; did you mean max_retries?",
        ),
        ('{"task_type": "a", "priority": 30}', "priority", "must be at most 10"),
        ('{"task_type": ""}', "task_type", "must not be empty"),
        ('{"task_type": "a", "timeout_s": 1.5}', "timeout_s", "must be a whole number, not a fraction"),
        ('{"task_type": "a", "project_id": 5}', "project_id", "must be a text or null, not a whole number"),
        ('{"task_type": "a", "min_resources": {"cpu": -1}}', "min_resources[...]", "must be at least 0"),
        ("[]", None, "must be an object, not a list"),
    ],
)
def test_a_body_is_refused_in_words(body: str, field: str | None, detail: str) -> None:
    refusal = read_task(body.encode())
    assert isinstance(refusal, Refusal)
    assert (refusal.field, refusal.detail) == (field, detail)
    assert not LIBRARY_WORDS.search(refusal.detail)


def test_a_word_that_is_none_of_a_few_is_told_with_them() -> None:
    with pytest.raises(msgspec.ValidationError) as failure:
        msgspec.json.decode(b'{"task": {}, "catch_up": "never"}', type=ScheduleBody)
    refusal = refusal_from_error(failure.value, ScheduleBody)
    assert (refusal.field, refusal.detail) == ("catch_up", "'never' is none of all, one, skip")


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    status: str = ""


class Outer(Inner):
    count: int = Field(1, ge=1, le=9)
    name: str = Field("a", min_length=1, max_length=3)
    order: Literal["fifo", "lifo"] = "fifo"
    inner: Inner | None = None


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ({"count": "x"}, "must be a whole number"),
        ({"count": 0}, "must be at least 1"),
        ({"count": 10}, "must be at most 9"),
        ({"name": ""}, "must not be empty"),
        ({"name": "abcd"}, "must have at most 3 characters"),
        ({"order": "x"}, "must be 'fifo' or 'lifo'"),
        ({"stauts": 1}, "there is no 'stauts'; did you mean status?"),
        ({"inner": 5}, "must be an object"),
    ],
)
def test_a_model_refuses_in_the_same_words(value: dict[str, Any], detail: str) -> None:
    with pytest.raises(ValidationError) as failure:
        Outer.model_validate(value)
    said = model_message(failure.value.errors()[0], Outer.model_fields)
    assert said == detail
    assert not LIBRARY_WORDS.search(said)


def test_what_was_meant_is_the_nearest_or_nothing() -> None:
    assert did_you_mean("Max-Pagse", ["max_pages", "max_bytes"]) == "max_pages"
    assert did_you_mean("zzz", ["max_pages"]) is None
    assert unknown_name("zzz", ["a", "b"]) == "there is no 'zzz'; there are a, b"


def test_a_parameter_of_the_system_itself_is_not_offered() -> None:
    types = TaskTypes({"web_crawl": WebCrawl.schema})
    refusal = types.find_refusal("web_crawl", b'{"url": "http://a.test/", "zzzzzz": 1}')
    assert refusal is not None
    assert "max_pages" in refusal.detail
    assert "spread" not in refusal.detail
    near = types.find_refusal("web_crawl", b'{"url": "http://a.test/", "spred": 1}')
    assert near is not None
    assert "spread" not in near.detail
    meant = types.find_refusal("web_crawl", b'{"url": "http://a.test/", "dept": 1}')
    assert meant is not None
    assert meant.detail == "there is no 'dept'; did you mean depth?"


@pytest.mark.parametrize(
    ("raw", "said"), [(b'{"a": 1', "it ends too early"), (b'{"a": 1,}', "trailing comma in object")]
)
def test_json_that_cannot_be_read_is_told_in_words(raw: bytes, said: str) -> None:
    assert find_decode_error(raw) == said
