"""Poison payloads and bad rows: each is refused by name, before or in the store, and takes nobody with it."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
import pytest

from crawlfleet.errors import CrawlfleetError
from crawlfleet.model import limits
from crawlfleet.model.ids import task_text
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.task_store import Accepted
from crawlfleet.wire.tasks import TaskBody, read_task, read_tasks
from tests.integration.faults.faults_kit import Fleet, accepted_ids, echo, refusals

pytestmark = pytest.mark.integration

DEEP = 10_000
GOOD = b'{"task_type":"echo"}'
STRICT = {"type": "object", "properties": {"depth": {"type": "integer"}, "urls": {"items": {"type": "string"}}}}


class Poison(NamedTuple):
    body: bytes
    field: str


def parameters(value: bytes) -> bytes:
    return b'{"task_type":"echo","parameters":' + value + b"}"


def field(name: bytes, value: bytes) -> bytes:
    return b'{"task_type":"echo","' + name + b'":' + value + b"}"


POISON = {
    "ten megabytes": Poison(parameters(b'{"a":"' + b"x" * 10_000_000 + b'"}'), "parameters"),
    "ten megabytes of features": Poison(field(b"content_features", b'{"a":"' + b"x" * 10_000_000 + b'"}'), "content_f"),
    "a long name": Poison(field(b"name", b'"' + b"x" * 10_000_000 + b'"'), "name"),
    "NUL": Poison(parameters(rb'{"a":{"b":["ok","\u0000"]}}'), "parameters.a.b[1]"),
    "a raw NUL": Poison(parameters(b'{"a":"\x00"}'), "parameters"),
    "NUL in a key": Poison(parameters(rb'{"a\u0000":1}'), "parameters"),
    "NUL in a name": Poison(field(b"name", rb'"a\u0000b"'), "name"),
    "NUL in a queue": Poison(field(b"queue", rb'"\u0000"'), "queue"),
    "invalid UTF-8": Poison(parameters(b'{"a":"\xff\xfe"}'), "parameters"),
    "invalid UTF-8 in a name": Poison(field(b"name", b'"\xff\xfe"'), "name"),
    "half a surrogate pair": Poison(parameters(rb'{"a":"\ud800"}'), "parameters"),
    "deep lists": Poison(parameters(b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}"), "parameters"),
    "deep objects": Poison(parameters(b'{"a":' * DEEP + b"1" + b"}" * DEEP), "parameters"),
    "deep features": Poison(field(b"content_features", b'{"a":' * DEEP + b"1" + b"}" * DEEP), "content_features"),
    "one level too deep": Poison(parameters(b'{"a":' + b"[" * 64 + b"]" * 64 + b"}"), "parameters.a"),
    "NaN": Poison(parameters(b'{"a":NaN}'), "parameters"),
    "infinity": Poison(parameters(b'{"a":1e999}'), "parameters"),
    "an integer of 64 bits": Poison(parameters(b'{"a":[1,{"b":9223372036854775808}]}'), "parameters.a[1].b"),
    "an integer of 5,000 digits": Poison(parameters(b'{"a":' + b"9" * 5_000 + b"}"), "parameters"),
    "a huge priority": Poison(field(b"priority", b"9" * 5_000), "priority"),
    "a huge timeout": Poison(field(b"timeout_s", b"9223372036854775808"), "timeout_s"),
    "no object": Poison(parameters(b"[1]"), "parameters"),
    "another type than the schema's": Poison(b'{"task_type":"strict","parameters":{"depth":"x"}}', "parameters.depth"),
    "deep in the schema": Poison(b'{"task_type":"strict","parameters":{"urls":["a",7]}}', "parameters.urls[1]"),
    "a megabyte of another type": Poison(
        b'{"task_type":"strict","parameters":{"depth":"' + b"x" * 1_000_000 + b'"}}', "parameters.depth"
    ),
    "an unknown type": Poison(b'{"task_type":"nobody"}', "task_type"),
    "an unknown field": Poison(field(b"prioritty", b"9"), "prioritty"),
    "a moment without a zone": Poison(field(b"run_at", b'"2026-01-31T12:00:00"'), "run_at"),
    "a megabyte as a moment": Poison(field(b"run_at", b'"' + b"x" * 1_000_000 + b'"'), "run_at"),
    "a malformed parent": Poison(field(b"depends_on", b'["task-1"]'), "depends_on[0]"),
}


@pytest.fixture
async def strict_fleet(fleet: Fleet) -> Fleet:
    fleet.master.task_types.add_type("strict", STRICT)
    await fleet.node()
    await fleet.tasks()
    return fleet


def assert_named(refusal: object, poison: Poison) -> None:
    assert isinstance(refusal, Refusal), f"{poison.body[:100]!r} was taken"
    assert refusal.field is not None, refusal
    assert refusal.field.startswith(poison.field), refusal
    assert len(refusal.detail) <= limits.MESSAGE_CHARS, "a refusal must not echo what it refuses"


def batch_with(poison: Poison) -> list[TaskBody | Refusal]:
    return read_tasks(b"[" + b",".join([GOOD, poison.body, GOOD]) + b"]")


async def test_every_poison_payload_is_refused_by_name_and_nothing_of_it_is_stored(strict_fleet: Fleet) -> None:
    before = await strict_fleet.dump()
    for poison in POISON.values():
        for is_atomic in (False, True):
            answer = await strict_fleet.submit(read_task(poison.body), is_atomic=is_atomic, key="k")
            assert_named(answer.items[0], poison)
    assert await strict_fleet.dump() == before


async def test_every_poison_payload_spoils_a_whole_atomic_batch(strict_fleet: Fleet) -> None:
    before = await strict_fleet.dump()
    for poison in POISON.values():
        answer = await strict_fleet.submit(*batch_with(poison), is_atomic=True, key="k")
        first, refused, last = answer.items
        assert isinstance(first, Refusal)
        assert first == last
        assert first.code is Code.BATCH_REFUSED
        assert_named(refused, poison)
    assert await strict_fleet.dump() == before


async def test_every_poison_payload_in_a_batch_is_refused_alone(strict_fleet: Fleet) -> None:
    for number, poison in enumerate(POISON.values(), start=1):
        answer = await strict_fleet.submit(*batch_with(poison), key=f"key {number}")
        first, refused, last = answer.items
        assert isinstance(first, Accepted)
        assert isinstance(last, Accepted)
        assert_named(refused, poison)
        assert await strict_fleet.store.count_rows() == {TaskStatus.PENDING: 1 + 2 * number}


BAD = {
    "refused before the store": (echo(run_at="tomorrow"), Code.INVALID_INPUT, "run_at"),
    "refused in the store": (echo(depends_on=[task_text(7)]), Code.UNKNOWN_DEPENDENCY, "depends_on[0]"),
}
EACH_BAD = pytest.mark.parametrize(("bad", "code", "named"), BAD.values(), ids=list(BAD))


def thousand_with(bad: TaskBody, at: int) -> list[TaskBody]:
    bodies = [echo(name=f"task {number}") for number in range(1_000)]
    bodies[at] = bad
    return bodies


@EACH_BAD
async def test_one_bad_row_among_a_thousand_is_answered_in_its_place(
    fleet: Fleet, bad: TaskBody, code: Code, named: str
) -> None:
    answer = await fleet.submit(*thousand_with(bad, 417))
    refusal = answer.items[417]
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.field) == (code, named)
    assert len(refusals(answer)) == 1
    names = {task: record.name for task, record in (await fleet.store.load_tasks(accepted_ids(answer))).items()}
    told = [item.id for item in answer.items if isinstance(item, Accepted)]
    assert [names[task] for task in told] == [f"task {number}" for number in range(1_000) if number != 417]
    assert await fleet.store.task_totals() == await fleet.store.count_rows() == {TaskStatus.PENDING: 999}


@EACH_BAD
async def test_one_bad_row_among_a_thousand_spoils_an_atomic_batch_until_it_is_mended(
    fleet: Fleet, bad: TaskBody, code: Code, named: str
) -> None:
    answer = await fleet.submit(*thousand_with(bad, 999), is_atomic=True, key="k")
    codes = [refusal.code for refusal in refusals(answer)]
    assert codes == [Code.BATCH_REFUSED] * 999 + [code]
    assert await fleet.store.task_totals() == await fleet.store.count_rows() == {}
    mended = await fleet.submit(*thousand_with(echo(), 999), is_atomic=True, key="k")
    assert len(accepted_ids(mended)) == 1_000
    assert not mended.is_replay


async def test_a_row_that_no_database_takes_fails_its_own_caller_only(fleet: Fleet) -> None:
    """Should a bound ever be forgotten further up: many callers share a commit, and only one of them pays."""
    forgotten = msgspec.structs.replace(echo(), timeout_s=2**70)
    callers = [fleet.submit(echo()) for _ in range(20)]
    callers.insert(7, fleet.submit(forgotten))
    answers: list[Any] = await asyncio.gather(*callers, return_exceptions=True)
    guilty = answers.pop(7)
    assert isinstance(guilty, CrawlfleetError | OverflowError)
    assert all(len(accepted_ids(answer)) == 1 for answer in answers)
    assert await fleet.store.count_rows() == {TaskStatus.PENDING: 20}
    await fleet.node()
    await fleet.settle()
    await fleet.judge()
