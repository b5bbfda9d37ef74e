"""Statuses, and the one table of legal transitions.

The numbers are stored, the words are shown. A task that is final leaves that state only when a person retries it,
which opens its next round (`REOPENED`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Word(IntEnum):
    """A stored number with a word for people."""

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of_word(cls, word: str) -> Self:
        """Return the member of a word. Raises KeyError for an unknown word."""
        if word != word.lower():
            raise KeyError(word)
        return cls[word.upper()]


class TaskStatus(Word):
    """The status of a task."""

    PENDING = 0
    WAITING = 1
    ASSIGNED = 2
    PROCESSING = 3
    RETRYING = 4
    COMPLETED = 10
    FAILED = 11
    TIMEOUT = 12
    CANCELLED = 13

    @property
    def is_final(self) -> bool:
        return self >= TaskStatus.COMPLETED

    @property
    def is_held(self) -> bool:
        """Whether a node holds the task under an execution."""
        return self in (TaskStatus.ASSIGNED, TaskStatus.PROCESSING)


class ExecutionStatus(Word):
    """The status in which an execution ended. While it is live it is shown with its task's status."""

    COMPLETED = 1
    FAILED = 2
    TIMEOUT = 3
    CANCELLED = 4
    LOST = 5
    PREEMPTED = 6
    RETURNED = 7
    PARKED = 8


class NodeStatus(Word):
    """The status of a node."""

    PENDING = 0
    ONLINE = 1
    MAINTENANCE = 2
    OFFLINE = 3
    UNRESPONSIVE = 4


class Health(Word):
    """The judgement of a node's health from its measurements."""

    UNKNOWN = 0
    HEALTHY = 1
    DEGRADED = 2
    UNHEALTHY = 3


class ClusterStatus(Word):
    """The status of a cluster."""

    ACTIVE = 0
    INACTIVE = 1
    MAINTENANCE = 2


class Recall(Word):
    """The reason of a recall, which orders a node to stop an execution."""

    NONE = 0
    CANCEL = 1
    DEADLINE = 2
    PREEMPT = 3
    MOVE = 4


class ErrorClass(Word):
    """The class of an execution's error."""

    NETWORK = 1
    HTTP = 2
    BLOCKED = 3
    PARSE = 4
    INPUT = 5
    TIMEOUT = 6
    CRASH = 7
    POLICY = 8
    INTERNAL = 9


_S = TaskStatus
_FROM_A_NODE = frozenset({_S.PENDING, _S.WAITING, _S.RETRYING, _S.COMPLETED, _S.FAILED, _S.TIMEOUT, _S.CANCELLED})

TRANSITIONS: dict[TaskStatus, frozenset[TaskStatus]] = {
    _S.PENDING: frozenset({_S.ASSIGNED, _S.CANCELLED}),
    _S.WAITING: frozenset({_S.PENDING, _S.CANCELLED}),
    _S.ASSIGNED: _FROM_A_NODE | {_S.PROCESSING},
    _S.PROCESSING: _FROM_A_NODE,
    _S.RETRYING: frozenset({_S.PENDING, _S.CANCELLED}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.TIMEOUT: frozenset(),
    _S.CANCELLED: frozenset(),
}

REOPENED = frozenset({_S.PENDING, _S.WAITING})
"""Statuses in which the next round of a final task may begin."""


ENDED_UNRUN = frozenset({_S.COMPLETED, _S.FAILED})
"""Statuses in which a waiting step of a flow may end without an execution: a step that only collects the results of its
items, or whose input is not available."""


def is_legal(have: TaskStatus, want: TaskStatus, *, is_unrun: bool = False) -> bool:
    """Return whether the table allows the transition; `is_unrun`: for a step of a flow without an execution."""
    return want in TRANSITIONS[have] or (is_unrun and have is _S.WAITING and want in ENDED_UNRUN)


LIVE_STATUSES = tuple(status for status in TaskStatus if not status.is_final)
FINAL_STATUSES = tuple(status for status in TaskStatus if status.is_final)
WAITING_STATUSES = (_S.PENDING, _S.WAITING, _S.RETRYING)
"""Statuses of live tasks on no node: those that the limits on waiting tasks count."""
