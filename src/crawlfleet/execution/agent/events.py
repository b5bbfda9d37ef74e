"""Events of an agent, emitted the moment they happen, for logs, metrics and the histories of tests."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

OnEvent = Callable[[str, dict[str, object]], None]


class AgentEvent(StrEnum):
    """Names of the events, each with the fields of its data."""

    SESSION_OPENED = "session_opened"
    """session, lease_s, reported (executions whose saved outcomes went up with it)"""
    SESSION_ENDED = "session_ended"
    """session: ended by a master"""
    CALL_FAILED = "call_failed"
    """call (`open` or `sync`), master (its place in the list), error"""
    EXECUTION_STARTED = "execution_started"
    """task, execution, session: handed to the executor"""
    EXECUTION_ENDED = "execution_ended"
    """task, execution, session, end (None: nothing is reported), was_started, task_type (None: it never began here):
    nothing of it runs any more"""
    OUTCOMES_SAVED = "outcomes_saved"
    """executions: on disk now, so a restart reports them"""
    OUTBOX_FAILED = "outbox_failed"
    """error: nothing could be saved; those outcomes stay held and are tried again"""
    OUTCOME_CUT = "outcome_cut"
    """task, execution, size_bytes: larger than a master takes, it is reported without its content"""
    LEASE_LAPSED = "lease_lapsed"
    """session, executions: being stopped by the lease guard (each ends with its own event)"""
    DRAIN_BEGAN = "drain_began"
    """is_leaving, within_s"""
    DRAIN_ENDED = "drain_ended"
    """the node takes work again"""
    LEFT = "left"
    """reason: agent.Departure"""


def ignore_event(_name: str, _data: dict[str, object]) -> None:
    """Default handler: events are ignored."""
