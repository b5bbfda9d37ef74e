"""Bodies of the queue dialect become tasks, and what is wrong with a task is named by the dialect's fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.api.dialects.queue_bodies import read_batch, read_task, translate_field
from crawlfleet.api.http.errors import Malformed
from crawlfleet.errors import InvalidInput
from crawlfleet.model.queue import PriorityClasses
from crawlfleet.model.refusal import Refusal
from crawlfleet.wire.tasks import RetryWanted, TaskBody

CLASSES = PriorityClasses(9, 6, 3)
LAST_S = 253_402_300_799
names = st.text("abc-", min_size=1, max_size=9)
bodies = st.fixed_dictionaries(
    {"type": names, "params": st.dictionaries(names, st.integers(0, 9), max_size=3)},
    optional={
        "priority": st.integers(1, 10) | st.sampled_from(["high", "normal", "low"]),
        "max_retries": st.integers(0, 100) | st.none(),
        "depends_on": st.lists(names, max_size=3) | st.none(),
        "run_at": st.floats(0, LAST_S) | st.integers(0, LAST_S) | st.none(),
        "queue": names,
        "project_id": names | st.none(),
    },
)


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


@given(bodies)
def test_every_field_has_its_place_in_the_task(body: dict[str, Any]) -> None:
    task = read_task(encode(body), CLASSES)
    assert isinstance(task, TaskBody)
    assert (task.task_type, msgspec.json.decode(task.parameters)) == (body["type"], body["params"])
    priority = body.get("priority", 5)
    assert task.priority == (priority if isinstance(priority, int) else getattr(CLASSES, priority))
    assert task.depends_on == (body.get("depends_on") or [])
    assert (task.queue, task.project_id) == (body.get("queue", "default"), body.get("project_id"))
    retries = body.get("max_retries")
    assert task.retry == (RetryWanted() if retries is None else RetryWanted(retries))
    assert (task.run_at is None) == (body.get("run_at") is None)


def test_seconds_become_an_instant() -> None:
    task = read_task(encode({"type": "echo", "params": {}, "run_at": 1_700_000_000.25}), CLASSES)
    assert isinstance(task, TaskBody)
    assert task.run_at == "2023-11-14T22:13:20.250Z"


@given(st.lists(bodies | st.sampled_from([7, None, {}, {"type": "echo"}]), min_size=1, max_size=5), st.booleans())
def test_a_batch_reads_each_task_as_if_it_were_alone(members: list[Any], is_atomic: bool) -> None:
    tasks, atomic = read_batch(encode({"tasks": members, "atomic": is_atomic}), CLASSES)
    assert atomic is is_atomic
    for member, task in zip(members, tasks, strict=True):
        try:
            alone = read_task(encode(member), CLASSES)
        except InvalidInput as exc:
            assert isinstance(task, Refusal)
            assert task.field == (None if exc.field == "body" else exc.field)
        else:
            assert task == alone


@given(st.binary(max_size=40))
def test_no_bytes_lead_to_any_other_error(raw: bytes) -> None:
    for read in (read_task, read_batch):
        try:
            read(raw, CLASSES)
        except (InvalidInput, Malformed):
            continue


@pytest.mark.parametrize(
    ("field", "translated"),
    [
        (None, None),
        ("task_type", "type"),
        ("parameters", "params"),
        ("parameters.url", "params.url"),
        ("parameters[0]", "params[0]"),
        ("parameters_of", "parameters_of"),
        ("retry.max_retries", "max_retries"),
        ("depends_on[3]", "depends_on[3]"),
    ],
)
def test_fields_of_a_task_have_the_names_of_the_dialect(field: str | None, translated: str | None) -> None:
    assert translate_field(field) == translated
