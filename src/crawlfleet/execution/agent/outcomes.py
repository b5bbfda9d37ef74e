"""From the end of an execution to its acknowledgement: gathered, sent, saved, forgotten.

An outcome goes to a master at once. What none has acknowledged within a quarter of a second goes to disk, many with one
sync of the disk, and stays there until one has: nearly all are acknowledged before. An agent killed in that time
loses the outcome, not the task: its lease ends, and it runs again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from crawlfleet.execution.agent.events import AgentEvent, OnEvent
from crawlfleet.execution.agent.news import News
from crawlfleet.execution.agent.outbox import Ended, Outbox
from crawlfleet.model import limits
from crawlfleet.model.instants import ms
from crawlfleet.ports.clock import Clock
from crawlfleet.wire.sync import OutcomeBody

GATHER_S = 0.01
SAVE_S = 0.25
SAVE_AGAIN_S = 1.0
BATCH_BYTES = 4 << 20


class Batch(NamedTuple):
    outcomes: list[OutcomeBody]
    left: list[int]
    """Executions that are over but not in this batch."""


class Outcomes:
    def __init__(self, outbox: Outbox, clock: Clock, news: News, on_event: OnEvent) -> None:
        self._outbox = outbox
        self._clock = clock
        self._news = news
        self._on_event = on_event
        self._unsaved: dict[int, Ended] = {}
        self._save_at: float | None = None

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
        self._news.tell(within_s=0.0 if is_last else GATHER_S)

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

    def batch(self, limit_bytes: int | None = BATCH_BYTES) -> Batch:
        """What a message may carry now, oldest first."""
        now = self._clock.monotonic()
        outcomes: list[OutcomeBody] = []
        left: list[int] = []
        size = 0
        for outcome, started_at in [*self._outbox.pending(), *self._unsaved.values()]:
            size += _size(outcome)
            is_too_much = limit_bytes is not None and size > limit_bytes and outcomes
            if is_too_much or len(outcomes) == limits.OUTCOMES_PER_SYNC:
                left.append(outcome.execution)
            else:
                ago = None if started_at is None else ms(now - started_at)
                outcomes.append(msgspec.structs.replace(outcome, started_ms_ago=ago))
        return Batch(outcomes, left)

    def drop(self, executions: Iterable[int]) -> list[int]:
        """Forget outcomes, acknowledged or no longer wanted; those that were known."""
        wanted = list(executions)
        gathered = [execution for execution in wanted if self._unsaved.pop(execution, None)]
        if not self._unsaved:
            self._save_at = None
        return gathered + self._outbox.drop(wanted)


def _size(outcome: OutcomeBody) -> int:
    return 100 + len(outcome.result) + len(outcome.metrics) + len(outcome.message)
