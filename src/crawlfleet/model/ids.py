"""Ids: 63-bit integers that sort by time and never repeat.

    41 bits  milliseconds since 2024            sorts by time; good until 2093
    10 bits  slot of the master's start         no two masters that run share one; a start that gets a slot which was
                                                used before goes on behind the last id made in it, so that ids never
                                                repeat even when a wall clock is set back
    12 bits  sequence within the millisecond    what does not fit borrows from the next millisecond

In the program they are integers (narrow keys that append to the B-tree); people see `task-` and sixteen hex digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant

TaskId = int
ExecutionId = int
NodeId = int
GroupId = int
ScheduleId = int

EPOCH_MS = 1_704_067_200_000
BOOT_BITS = 10
SEQUENCE_BITS = 12
BOOTS = 1 << BOOT_BITS
_PER_MS = 1 << SEQUENCE_BITS
_TIME_SHIFT = BOOT_BITS + SEQUENCE_BITS
_HEX_DIGITS = 16
_MAX_ID = (1 << 63) - 1


class IdSlot(NamedTuple):
    """A slot of ids as one start of a master holds it."""

    slot: int
    until: Instant
    """Instant up to which ids of this slot may exist; 0 for a slot that was never used."""


class IdFactory:
    """Makes ids in ascending order, also while the clock stands or jumps back."""

    def __init__(self, slot: int | IdSlot, wall_ms: Callable[[], Instant]) -> None:
        self._wall_ms = wall_ms
        self._last_ms = 0
        self._sequence = 0
        self.use_slot(slot if isinstance(slot, IdSlot) else IdSlot(slot % BOOTS, 0))

    @property
    def slot(self) -> int:
        return self._slot >> SEQUENCE_BITS

    @property
    def newest_at(self) -> Instant:
        """The time in the newest id: ahead of the wall clock after a jump back or a burst."""
        return self._last_ms + EPOCH_MS

    def use_slot(self, id_slot: IdSlot) -> None:
        """Make ids in this slot from now on, all of them later than those that may exist in it."""
        self._slot = id_slot.slot << SEQUENCE_BITS
        if id_slot.until >= self.newest_at:
            self._last_ms, self._sequence = id_slot.until - EPOCH_MS, _PER_MS

    def new_id(self) -> int:
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[int]:
        """Make this many ids, in ascending order."""
        now = self._wall_ms() - EPOCH_MS
        if now > self._last_ms:
            self._last_ms, self._sequence = now, 0
        ids: list[int] = []
        while len(ids) < count:
            if self._sequence == _PER_MS:
                self._last_ms, self._sequence = self._last_ms + 1, 0
            run = min(count - len(ids), _PER_MS - self._sequence)
            first = (self._last_ms << _TIME_SHIFT) | self._slot | self._sequence
            ids.extend(range(first, first + run))
            self._sequence += run
        return ids


def ids_from(first: int, count: int) -> list[int]:
    """Return the ids that one call of `new_ids` gave, from the first: storing only that one reserves them all."""
    head, sequence = first >> SEQUENCE_BITS, first & (_PER_MS - 1)
    ids = []
    for position in range(sequence, sequence + count):
        later_ms, number = divmod(position, _PER_MS)
        ids.append(((head + (later_ms << BOOT_BITS)) << SEQUENCE_BITS) | number)
    return ids


def made_at(any_id: int) -> Instant:
    """Return the instant at which the id was made, by the clock of the master that made it."""
    return (any_id >> _TIME_SHIFT) + EPOCH_MS


def task_text(task: TaskId) -> str:
    return f"task-{task:016x}"


def execution_text(execution: ExecutionId) -> str:
    return f"exec-{execution:016x}"


def node_text(node: NodeId) -> str:
    return f"node-{node:016x}"


def group_text(group: GroupId) -> str:
    return f"group-{group:016x}"


def schedule_text(schedule: ScheduleId) -> str:
    return f"schedule-{schedule:016x}"


def parse_id(text: str, prefix: str, *, field: str) -> int:
    """Return the integer of `prefix-` and sixteen hex digits; raises InvalidInput with the field named."""
    head, _, digits = text.partition("-")
    if head == prefix and len(digits) == _HEX_DIGITS and digits.isascii() and digits.isalnum():
        try:
            value = int(digits, 16)
        except ValueError:
            value = -1
        if 0 < value <= _MAX_ID and digits == f"{value:016x}":
            return value
    raise InvalidInput(f"not an id of the form {prefix}- and {_HEX_DIGITS} hex digits", field=field)
