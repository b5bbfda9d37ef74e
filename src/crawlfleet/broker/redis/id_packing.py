"""Packing of ids for Redis: sixteen hex digits each, as people see them, in one string for the whole batch.

One long argument costs both sides a fraction of thousands of short ones, and hex digits of one width sort like ids.
Negated ids stand for lanes that are last in first out; among themselves they sort the same way.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

DIGITS = 16


def pack_ids(ids: Sequence[int]) -> str:
    return struct.pack(f">{len(ids)}q", *ids).hex()


def unpack_ids(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(packed) // DIGITS}q", bytes.fromhex(packed.decode("ascii")))


def unpack_id(digits: bytes) -> int:
    """Decode one id."""
    return int.from_bytes(bytes.fromhex(digits.decode("ascii")), "big", signed=True)
