"""From the end of an execution to its acknowledgement: gathered, sent, saved, forgotten.

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
from crawlfleet.execution.agent.work.outbox import Ended, Outbox
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.instants import ms
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.transport import MessageTooLarge
from crawlfleet.wire.sync import NULL, OutcomeBody

GATHER_S = 0.01
SAVE_S = 0.25
SAVE_AGAIN_S = 1.0
BATCH_BYTES = 4 << 20
"""Of outcomes in one message: far below what a master takes, and sent within a second over a slow line."""
SMALL_BYTES = 64 << 10
"""A message with fewer bytes of outcomes is not refused, or slow, because of them."""
GROW_S = 60.0
FOREIGN_REFUSALS = 10
"""So often a server that may be no master has to refuse one outcome before it is believed."""

_encode = msgspec.json.Encoder().encode


class Batch(NamedTuple):
    outcomes: list[OutcomeBody]
    left: list[int]
    """Executions that are over but not in this batch."""


class Outcomes:
    def __init__(self, outbox: Outbox, clock: Clock, news: SyncTrigger, on_event: OnEvent) -> None:
        self._outbox = outbox
        self._clock = clock
        self._news = news
        self._on_event = on_event
        self._unsaved: dict[int, Ended] = {}
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
        """When what was gathered must go to disk, whether or not a message can take it along."""
        return self._save_at

    def add(self, outcome: OutcomeBody, started_at: float | None = None, *, is_last: bool = True) -> None:
        """An execution's one outcome: a second one is not taken. Unless it is the last of those that run here, it waits
        a moment for the next ones: a busy node sends few, full messages."""
        if outcome.execution in self:
            return
        self._unsaved[outcome.execution] = Ended(outcome, started_at)
        if self._save_at is None:
            self._save_at = self._clock.monotonic() + SAVE_S
        self._news.schedule_sync(within_s=0.0 if is_last else GATHER_S)

    def save(self) -> None:
        """Put what was gathered on disk; when the disk refuses, it stays gathered and is tried again."""
        if not self._unsaved:
            return
        try:
            self._outbox.add(list(self._unsaved.values()))
        except OSError as exc:
            self._save_at = self._clock.monotonic() + SAVE_AGAIN_S
            self._on_event(AgentEvent.OUTBOX_FAILED, {"error": str(exc)})
            return
        saved = list(self._unsaved)
        self._unsaved.clear()
        self._save_at = None
        self._on_event(AgentEvent.OUTCOMES_SAVED, {"executions": saved})

    def batch(self) -> Batch:
        """What a message may carry now, oldest first; one outcome at least."""
        now = self._clock.monotonic()
        if self._batch_bytes < BATCH_BYTES and now >= self._grow_at:
            self._batch_bytes, self._grow_at = min(BATCH_BYTES, 2 * self._batch_bytes), now + GROW_S
        outcomes: list[OutcomeBody] = []
        pending = [*self._outbox.pending(), *self._unsaved.values()]
        size = 0
        for outcome, started_at in pending[: limits.OUTCOMES_PER_SYNC]:
            ago = None if started_at is None else ms(now - started_at)
            sent = msgspec.structs.replace(outcome, started_ms_ago=ago)
            size += _size(sent)
            if outcomes and size > self._batch_bytes:
                break
            outcomes.append(sent)
        return Batch(outcomes, [ended.outcome.execution for ended in pending[len(outcomes) :]])

    def send_less(self, sent: Sequence[OutcomeBody], *, refusal: MessageTooLarge | None = None) -> None:
        """A message with these outcomes was refused for its size or, without a refusal, took too long."""
        size = sum(map(_size, sent))
        if size < SMALL_BYTES:
            return
        if len(sent) > 1:
            self._batch_bytes = max(SMALL_BYTES, min(self._batch_bytes, size) // 2)
            self._grow_at = self._clock.monotonic() + GROW_S
        elif refusal is not None and self._is_believed(refusal, sent[0].execution):
            self._cut(sent[0].execution, size)

    def drop(self, executions: Iterable[int]) -> list[int]:
        """Forget outcomes, acknowledged or no longer wanted; those that were known."""
        wanted = list(executions)
        gathered = [execution for execution in wanted if self._unsaved.pop(execution, None)]
        for execution in wanted:
            self._foreign_refusals.pop(execution, None)
        if not self._unsaved:
            self._save_at = None
        return gathered + self._outbox.drop(wanted)

    def _is_believed(self, refusal: MessageTooLarge, execution: int) -> bool:
        """A master at once; another server only after many tries, as it may stand at the master's address by mistake
        and for a moment."""
        if refusal.is_from_master:
            return True
        self._foreign_refusals[execution] += 1
        return self._foreign_refusals[execution] >= FOREIGN_REFUSALS

    def _cut(self, execution: int, size: int) -> None:
        """Report an outcome without its content."""
        ended = self._unsaved.get(execution) or self._outbox.get(execution)
        if ended is None:
            return
        cut = Ended(_without_content(ended.outcome, size), ended.started_at)
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


def _size(outcome: OutcomeBody) -> int:
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
