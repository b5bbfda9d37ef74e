"""How a list is split: in order, every value once, the same way each time."""

from __future__ import annotations

from itertools import pairwise


def bounds(length: int, *, size: int | None = None, count: int | None = None) -> list[tuple[int, int]]:
    """Where each shard of a list begins and ends: shards of `size` values (the last may be shorter), or `count` shards
    that differ by one value at most. None is empty, so that a short list has fewer."""
    if size is not None:
        return [(start, min(start + size, length)) for start in range(0, length, size)]
    shards = min(count or 1, length)
    if not shards:
        return []
    least, more = divmod(length, shards)
    ends = [least * number + min(number, more) for number in range(shards + 1)]
    return list(pairwise(ends))


def shards_in(length: int, *, size: int | None = None, count: int | None = None) -> int:
    """How many there would be."""
    return -(-length // size) if size is not None else min(count or 1, length)
