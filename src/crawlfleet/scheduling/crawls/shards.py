"""Splits a list into shards: in order, every value once, the same way each time."""

from __future__ import annotations

from itertools import pairwise


def shard_bounds(length: int, *, size: int | None = None, count: int | None = None) -> list[tuple[int, int]]:
    """The begin and end of each shard of a list: shards of `size` values (the last may be shorter), or `count` shards
    that differ by one value at most. No shard is empty, so that a short list has fewer."""
    if size is not None:
        return [(start, min(start + size, length)) for start in range(0, length, size)]
    shards = min(count or 1, length)
    if not shards:
        return []
    least, more = divmod(length, shards)
    ends = [least * number + min(number, more) for number in range(shards + 1)]
    return list(pairwise(ends))


def shard_count(length: int, *, size: int | None = None, count: int | None = None) -> int:
    """How many shards there would be."""
    return -(-length // size) if size is not None else min(count or 1, length)
