"""Outcomes from the end of an execution to its acknowledgement: batched, sent, saved, dropped.

An outcome goes to a master at once. What none has acknowledged within a quarter of a second goes to disk, many with one
sync of the disk, and stays there until one has: nearly all are acknowledged before. An agent killed in that time
loses the outcome, not the task: its lease ends, and it runs again.

Messages are bounded by the bytes that are really sent. One that is too large for a master, or takes too long on its
way, is followed by smaller ones. An outcome that is too large alone is reported as a failure without its content, so
that one task ends with a reason and the node goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from crawlfleet.execution.agent.events import AgentEvent, OnEvent
from crawlfleet.execution.agent.sync.sync_trigger import SyncTrigger
from crawlfleet.execution.agent.work.outbox import EndedExecution, Outbox
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.instants import ms
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.transport import MessageTooLarge
from crawlfleet.wire.sync import NULL, OutcomeBody

BATCH_DELAY_S = 0.01
SAVE_S = 0.25
SAVE_RETRY_S = 1.0
BATCH_BYTES = 4 << 20
"""Maximum size of the outcomes in one message: far below a master's limit, sent within a second over a slow line."""
SMALL_BYTES = 64 << 10
"""Size of outcomes below which they are not the reason for a refused or slow message."""
GROW_S = 60.0
BELIEVED_REFUSALS = 10
"""Number of refusals of one outcome after which a server that may be no master is believed."""

_encode = msgspec.json.Encoder().encode


class OutcomeBatch(NamedTuple):
    """The outcomes of one message, and what is left for later ones."""

    outcomes: list[OutcomeBody]
    remaining: list[int]
    """Executions that are over but whose outcomes are not in this batch."""


class Outcomes:
    """All outcomes that no master has acknowledged, on disk or not yet."""

    def __init__(self, outbox: Outbox, clock: Clock, sync_trigger: SyncTrigger, on_event: OnEvent) -> None:
        self._outbox = outbox
        self._clock = clock
        self._sync_trigger = sync_trigger
        self._on_event = on_event
        self._unsaved: dict[int, EndedExecution] = {}
        self._save_at: float | None = None
        self._batch_bytes = BATCH_BYTES
        self._grow_at = 0.0
        self._foreign_refusals: Counter[int] = Counter()

    def __contains__(self, execution: int) -> bool:
        return execution in self._unsaved or execution in self._outbox

    def __len__(self) -> int:
        return len(self._unsaved) + len(self._outbox)

    @property
    def save_at(self) -> float | None:
        """Monotonic time by which unsaved outcomes must be on disk; None while there are none."""
        return self._save_at

    def add(self, outcome: OutcomeBody, started_at: float | None = None, *, is_last: bool = True) -> None:
        """Add the outcome of an execution; a second one is ignored.

        Unless it is the last of those that run here, it waits a little for the next ones: a busy node sends few, full
        messages.
        """
        if outcome.execution in self:
            return
        self._unsaved[outcome.execution] = EndedExecution(outcome, started_at)
        if self._save_at is None:
            self._save_at = self._clock.monotonic() + SAVE_S
        self._sync_trigger.schedule_sync(within_s=0.0 if is_last else BATCH_DELAY_S)

    def save(self) -> None:
        """Write unsaved outcomes to disk; when that fails they stay unsaved and are tried again."""
        if not self._unsaved:
            return
        try:
            self._outbox.add(list(self._unsaved.values()))
        except OSError as exc:
            self._save_at = self._clock.monotonic() + SAVE_RETRY_S
            self._on_event(AgentEvent.OUTBOX_FAILED, {"error": str(exc)})
            return
        saved = list(self._unsaved)
        self._unsaved.clear()
        self._save_at = None
        self._on_event(AgentEvent.OUTCOMES_SAVED, {"executions": saved})

    def next_batch(self) -> OutcomeBatch:
        """The outcomes that a message may carry now, oldest first; at least one."""
        now = self._clock.monotonic()
        if self._batch_bytes < BATCH_BYTES and now >= self._grow_at:
            self._batch_bytes, self._grow_at = min(BATCH_BYTES, 2 * self._batch_bytes), now + GROW_S
        outcomes: list[OutcomeBody] = []
        pending = [*self._outbox.pending_outcomes(), *self._unsaved.values()]
        size = 0
        for outcome, started_at in pending[: limits.OUTCOMES_PER_SYNC]:
            ago = None if started_at is None else ms(now - started_at)
            outgoing = msgspec.structs.replace(outcome, started_ms_ago=ago)
            size += _encoded_size(outgoing)
            if outcomes and size > self._batch_bytes:
                break
            outcomes.append(outgoing)
        return OutcomeBatch(outcomes, [ended.outcome.execution for ended in pending[len(outcomes) :]])

    def shrink_batches(self, sent: Sequence[OutcomeBody], *, refusal: MessageTooLarge | None = None) -> None:
        """Make batches smaller after a message was refused for its size or, without a refusal, took too long."""
        size = sum(map(_encoded_size, sent))
        if size < SMALL_BYTES:
            return
        if len(sent) > 1:
            self._batch_bytes = max(SMALL_BYTES, min(self._batch_bytes, size) // 2)
            self._grow_at = self._clock.monotonic() + GROW_S
        elif refusal is not None and self._is_believed(refusal, sent[0].execution):
            self._report_without_content(sent[0].execution, size)

    def drop(self, executions: Iterable[int]) -> list[int]:
        """Drop outcomes that are acknowledged or no longer wanted; returns the executions that were here."""
        execution_ids = list(executions)
        unsaved = [execution for execution in execution_ids if self._unsaved.pop(execution, None)]
        for execution in execution_ids:
            self._foreign_refusals.pop(execution, None)
        if not self._unsaved:
            self._save_at = None
        return unsaved + self._outbox.drop(execution_ids)

    def _is_believed(self, refusal: MessageTooLarge, execution: int) -> bool:
        """Whether a refusal is believed: a master's at once, another server's only after many tries, as it may be at
        the master's address by mistake and for a short time."""
        if refusal.is_from_master:
            return True
        self._foreign_refusals[execution] += 1
        return self._foreign_refusals[execution] >= BELIEVED_REFUSALS

    def _report_without_content(self, execution: int, size: int) -> None:
        """Report an outcome without its content."""
        ended = self._unsaved.get(execution) or self._outbox.get(execution)
        if ended is None:
            return
        cut = EndedExecution(_without_content(ended.outcome, size), ended.started_at)
        if execution in self._unsaved:
            self._unsaved[execution] = cut
        else:
            try:
                self._outbox.replace(cut)
            except OSError as exc:
                self._on_event(AgentEvent.OUTBOX_FAILED, {"error": str(exc)})
                return
        data: dict[str, object] = {"task": cut.outcome.task, "execution": execution, "size_bytes": size}
        self._on_event(AgentEvent.OUTCOME_CUT, data)


def _encoded_size(outcome: OutcomeBody) -> int:
    # With the comma that separates it from the next one.
    return len(_encode(outcome)) + 1


def _without_content(outcome: OutcomeBody, size: int) -> OutcomeBody:
    bare = msgspec.structs.replace(outcome, result=NULL, metrics=NULL, products=[])
    if outcome.end != End.COMPLETED:
        return bare
    message = (
        f"its outcome is {size:,} bytes, more than a master takes in one message: the work was done, but its result "
        "and products could not be handed over; let it return less, and send products while it runs"
    )
    return msgspec.structs.replace(
        bare, end=int(End.FAILED), error=int(ErrorClass.INTERNAL), message=message, is_permanent=True
    )
