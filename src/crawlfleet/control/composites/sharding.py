"""Splits one task into shards: the list at one of its parameters is split, and all else stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.scheduling.crawls.shards import shard_bounds, shard_count
from crawlfleet.wire.groups import ShardBody, ShardSpec
from crawlfleet.wire.tasks import TaskBody

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def split_task(template: TaskBody, shard: ShardBody) -> tuple[list[TaskBody | Refusal], ShardSpec]:
    """Return the shards in order. Raises InvalidInput for what cannot be split. Values keep the bytes that they came
    with."""
    parameters = _OBJECT.decode(template.parameters)
    values = _decode_values(parameters, shard.over)
    shards = _count_shards(len(values), shard)
    spec = ShardSpec(shard.over, shards, len(values), shard.size, shard.count)
    children = [
        _shard_body(template, _encode({**parameters, shard.over: values[start:end]}), shard.over)
        for start, end in shard_bounds(len(values), size=shard.size, count=shard.count)
    ]
    return children, spec


def _decode_values(parameters: dict[str, msgspec.Raw], over: str) -> Sequence[msgspec.Raw]:
    field = f"task.parameters.{over}"
    if over not in parameters:
        raise InvalidInput(f"the task has no parameter {over!r}", field="shard.over")
    try:
        values = _LIST.decode(parameters[over])
    except msgspec.ValidationError as exc:
        raise InvalidInput("is not a list, so it cannot be split", field=field) from exc
    if not values:
        raise InvalidInput("is an empty list: there is nothing to split", field=field)
    return values


def _count_shards(length: int, shard: ShardBody) -> int:
    if (shard.size is None) == (shard.count is None):
        raise InvalidInput("give either size or count", field="shard")
    shards = shard_count(length, size=shard.size, count=shard.count)
    if shards > limits.BATCH_TASKS:
        field = "shard.size" if shard.size is not None else "shard.count"
        raise InvalidInput(f"these are {shards} shards; at most {limits.BATCH_TASKS} are taken", field=field)
    return shards


def _shard_body(template: TaskBody, parameters: bytes, over: str) -> TaskBody | Refusal:
    if len(parameters) > limits.PARAMETERS_BYTES:
        detail = f"{len(parameters)} bytes in a shard; at most {limits.PARAMETERS_BYTES} are taken: make shards smaller"
        return Refusal(Code.TOO_LARGE, detail, f"parameters.{over}")
    return msgspec.structs.replace(template, parameters=msgspec.Raw(parameters))
