"""Drops what retention no longer keeps, a little at a time: rows, and then the chunks that the tasks had left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlfleet.control.lead import Lead
from crawlfleet.control.loops.loop import LeaderLoop
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.artifacts import ChunkStore
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.upkeep import KEEP_AUDIT_MS, Upkeep

BATCH = 1_000
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Retention:
    tasks_ms: int = 30 * _DAY_MS
    events_ms: int = 7 * _DAY_MS
    audit_ms: int = KEEP_AUDIT_MS
    gone_products_ms: int | None = 90 * _DAY_MS
    """From when they were found to be gone; None: for ever."""


class Pruner(LeaderLoop):
    name = "pruner"
    pause_s = 60.0

    def __init__(
        self, *, store: Upkeep, clock: Clock, lead: Lead, retention: Retention | None = None,
        chunks: ChunkStore | None = None,
    ) -> None:  # fmt: skip
        super().__init__(clock, lead)
        self._store = store
        self._retention = retention or Retention()
        self._chunks = chunks
        self._undropped: Sequence[TaskId] = ()

    async def run_term(self, term: int, now: Instant) -> bool:
        """Whether there may be more."""
        # First what could not be dropped the last time, so that it does not grow.
        await self._drop()
        kept = self._retention
        pruned = await self._store.prune(
            term, now, kept.tasks_ms, kept.events_ms, BATCH, keep_audit_ms=kept.audit_ms,
            keep_gone_ms=kept.gone_products_ms,
        )  # fmt: skip
        self._undropped = pruned.tasks
        await self._drop()
        return pruned.rows >= BATCH

    async def _drop(self) -> None:
        if self._chunks is not None and self._undropped:
            await self._chunks.drop(self._undropped)
        self._undropped = ()
