"""Splitting: every value once, in order, the same way each time."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.control.composites.sharding import split_task
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.scheduling.crawls.shards import shard_bounds, shard_count
from crawlfleet.wire.groups import ShardBody
from crawlfleet.wire.tasks import TaskBody


def template(parameters: object, **fields: object) -> TaskBody:
    return TaskBody("echo", msgspec.Raw(msgspec.json.encode(parameters)), **fields)  # type: ignore[arg-type]


@given(st.integers(1, 5_000), st.integers(1, 6_000))
def test_shards_of_a_size_hold_every_value_once_in_order(length: int, size: int) -> None:
    found = shard_bounds(length, size=size)
    assert [value for start, end in found for value in range(start, end)] == list(range(length))
    assert all(end - start == size for start, end in found[:-1])
    assert 0 < found[-1][1] - found[-1][0] <= size
    assert len(found) == shard_count(length, size=size)


@given(st.integers(1, 5_000), st.integers(1, 6_000))
def test_so_many_shards_differ_by_one_value_at_most(length: int, count: int) -> None:
    found = shard_bounds(length, count=count)
    assert [value for start, end in found for value in range(start, end)] == list(range(length))
    assert len(found) == min(count, length) == shard_count(length, count=count)
    sizes = [end - start for start, end in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_nothing_has_no_shards() -> None:
    assert shard_bounds(0, size=5) == shard_bounds(0, count=5) == []


def test_only_the_list_differs_from_shard_to_shard() -> None:
    task = template({"a": 1, "urls": [1.50, "x", {"y": [2]}], "z": None}, priority=8, name="n", timeout_s=5)
    children, spec = split_task(task, ShardBody("urls", size=2))
    assert [msgspec.json.decode(child.parameters) for child in children if isinstance(child, TaskBody)] == [
        {"a": 1, "urls": [1.5, "x"], "z": None},
        {"a": 1, "urls": [{"y": [2]}], "z": None},
    ]
    for child in children:
        assert isinstance(child, TaskBody)
        assert msgspec.structs.replace(child, parameters=task.parameters) == task
    assert (spec.over, spec.shards, spec.values, spec.size, spec.count) == ("urls", 2, 3, 2, None)


def test_values_pass_as_the_bytes_they_came_as() -> None:
    task = TaskBody("echo", msgspec.Raw(b'{"v": [1.10, 2e3, "\\u00e9"]}'))
    (child,) = split_task(task, ShardBody("v", count=1))[0]
    assert isinstance(child, TaskBody)
    assert bytes(child.parameters) == b'{"v":[1.10,2e3,"\\u00e9"]}'


def test_a_shard_that_is_too_large_is_refused() -> None:
    task = template({"v": ["x" * (limits.PARAMETERS_BYTES // 2)] * 3})
    large, small = split_task(task, ShardBody("v", size=2))[0]
    assert isinstance(large, Refusal)
    assert (large.code, large.field) == (Code.TOO_LARGE, "parameters.v")
    assert isinstance(small, TaskBody)


@pytest.mark.parametrize("shard", [ShardBody("v"), ShardBody("v", size=1, count=1)])
def test_either_size_or_count(shard: ShardBody) -> None:
    with pytest.raises(InvalidInput) as refused:
        split_task(template({"v": [1]}), shard)
    assert refused.value.field == "shard"
