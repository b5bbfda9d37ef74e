"""Refusals: the answers to bad items of a batch. A bad item is answered; the other items are processed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """The code of a refusal. Stable: clients may branch on these words."""

    INVALID_INPUT = "invalid_input"
    TOO_LARGE = "too_large"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_TASK = "unknown_task"
    UNKNOWN_NODE = "unknown_node"
    UNKNOWN_DEPENDENCY = "unknown_dependency"
    UNKNOWN_GROUP = "unknown_group"
    GROUP_CLOSED = "group_closed"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    BATCH_REFUSED = "batch_refused"
    ILLEGAL_TRANSITION = "illegal_transition"
    ALREADY_FINAL = "already_final"
    NOT_FINAL = "not_final"
    NOT_READY = "not_ready"
    STALE_EXECUTION = "stale_execution"
    WRONG_NODE = "wrong_node"
    SESSION_ENDED = "session_ended"
    NODE_NOT_READY = "node_not_ready"
    DOES_NOT_FIT = "does_not_fit"
    PART_OF_FLOW = "part_of_flow"
    OVER_LIMIT = "over_limit"
    OVER_QUOTA = "over_quota"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a refused item."""

    code: Code
    detail: str
    """Explanation for people."""
    field: str | None = None
    """Name of the field that is wrong."""
