"""Tasks as the device dialect submits them: names there and back."""

from __future__ import annotations

import pytest

from crawlfleet.api.dialects.device_submissions import (
    DeviceTask,
    read_device_name,
    read_fields,
    translate_field,
    translate_refusal,
    translate_task,
)
from crawlfleet.api.http.errors import Malformed
from crawlfleet.errors import InvalidInput
from crawlfleet.model.ids import node_text
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.wire.tasks import TaskBody


def test_every_field_of_the_document_is_read() -> None:
    values = {"task_type": '"a"', "params": "{}", "priority": "3", "timeout": "9", "max_retry_count": "1"}
    values |= {"task_name": '"n"', "project_id": '"p"', "device_id": '"d"', "scheduled_at": '"x"', "depends_on": "[]"}
    assert set(values) == set(DeviceTask.__struct_fields__)
    raw = "{" + ",".join(f'"{name}":{value}' for name, value in values.items()) + "}"
    body = translate_task(read_fields(raw.encode()), None)
    assert isinstance(body, TaskBody)
    assert (body.name, body.project_id, body.priority, body.timeout_s, body.run_at) == ("n", "p", 3, 9, "x")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("parameters", "params"),
        ("parameters.url", "params.url"),
        ("name", "task_name"),
        ("retry.max_retries", "max_retry_count"),
        ("timeout_s", "timeout"),
        ("run_at", "scheduled_at"),
        ("node_id", "device_id"),
        ("depends_on[3]", "depends_on[3]"),
        ("namespace", "namespace"),
    ],
)
def test_a_refusal_names_the_field_of_the_dialect(ours: str, theirs: str) -> None:
    assert translate_field(ours) == theirs
    assert translate_refusal(Refusal(Code.INVALID_INPUT, "bad", ours)).field == theirs


def test_a_device_becomes_a_node() -> None:
    fields = read_fields(b'{"task_type":"a","params":{"x":1.50},"device_id":"d","max_retry_count":2}')
    assert read_device_name(fields) == "d"
    body = translate_task(fields, 7)
    assert isinstance(body, TaskBody)
    assert (body.node_id, body.retry.max_retries, bytes(body.parameters)) == (node_text(7), 2, b'{"x":1.50}')


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a":}', b"\xff"])
def test_what_is_no_json_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        read_fields(raw)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"[]", "body"),
        (b'{"params":{}}', "task_type"),
        (b'{"task_type":"a"}', "params"),
        (b'{"task_type":"a","params":{},"task_data":{}}', "task_data"),
        (b'{"task_type":"a","params":{},"timeout_s":1}', "timeout_s"),
    ],
)
def test_a_wrong_field_is_named(raw: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_fields(raw)
    assert refused.value.field == field
