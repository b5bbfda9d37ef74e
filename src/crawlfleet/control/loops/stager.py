"""Makes ready what was waiting for its time: `run_at`, and retries after their back-off."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.control.avoided import Avoided
from crawlfleet.control.hints import tell
from crawlfleet.control.lead import Lead
from crawlfleet.control.loops.loop import LeaderLoop
from crawlfleet.model.instants import Instant
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.evidence import EvidenceStore
from crawlfleet.ports.ready_tasks import ReadyTasks
from crawlfleet.ports.task_store import TaskStore
from crawlfleet.scheduling import life

BATCH = 1_000


class _Store(TaskStore, ReadyTasks, EvidenceStore, Protocol):
    pass


class Stager(LeaderLoop):
    name = "stager"
    pause_s = 0.5

    def __init__(self, *, store: _Store, broker: Broker, clock: Clock, lead: Lead, avoided: Avoided) -> None:
        super().__init__(clock, lead)
        self._avoided = avoided
        self._store = store
        self._broker = broker

    async def run_term(self, term: int, now: Instant) -> bool:
        """Whether there may be more."""
        due = await self._store.due(now, BATCH)
        if not due:
            return False
        # Before they are ready: the dispatcher may have them a moment later.
        self._avoided.note(await self._store.failed_on(due))
        applied = await self._store.change(due, life.release(now), now, term)
        await tell(self._broker, applied)
        return len(due) == BATCH and bool(applied.after)
