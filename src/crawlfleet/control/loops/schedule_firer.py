"""Fires schedules: due ticks become tasks, in batches, each tick once.

A tick is a row, written with its task under the leader's term. So it does not matter how often a master dies on the
way, or how many believe that they lead: a batch is stored or it is not, and the next pass begins where it ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.control.support.broker_hints import publish_hints, publish_ready
from crawlfleet.control.tasks.submit import Submit
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import Plan, Schedule
from crawlfleet.ports.broker import SCHEDULES, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.schedule_store import Firing, ScheduleStore
from crawlfleet.scheduling.schedules.ticks import plan_ticks
from crawlfleet.wire.tasks import read_task

BATCH = 500
MAX_TICKS = 2_000
"""Limit on the ticks in one transaction: leases must not wait behind it."""


class _DueSchedule(NamedTuple):
    schedule: Schedule
    plan: Plan
    ticks: Sequence[Instant]
    """Ticks of the plan, and the one that was held."""


class ScheduleFirer(LeaderLoop):
    name = "firer"
    pause_s = 1.0

    def __init__(
        self, *, store: ScheduleStore, broker: Broker, clock: Clock, leadership: LeadershipState, submit: Submit
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._submit = submit
        self._next_at: Instant | None = None

    async def wait(self, pause_s: float) -> None:
        """Wait until the next tick, and never longer than the usual pause: wall clocks jump."""
        if pause_s > 0 and self.leadership.term is not None:
            if self._next_at is not None:
                pause_s = min(pause_s, max(0.001, (self._next_at - self._clock.now()) / 1000))
            await self._broker.signals.wait_for_signal(SCHEDULES, pause_s)
        else:
            await super().wait(pause_s)

    async def run_term(self, term: int, now: Instant) -> bool:
        """Fire what is due; True if there may be more."""
        settled = 0
        for batch in _batches(
            [_due_schedule(schedule, now) for schedule in await self._store.due_schedules(now, BATCH)]
        ):
            settled += await self._fire(batch, term, now)
        self._next_at = await self._store.next_due()
        return settled > 0

    async def _fire(self, batch: Sequence[_DueSchedule], term: int, now: Instant) -> int:
        bodies = [read_task(due.schedule.task) for due in batch for _ in due.ticks]
        async with self._submit.prepare_admitted(bodies) as items:
            made, limited = iter(items), await self._submit.find_limited_projects(items)
            firings = [
                Firing(due.schedule, due.plan, {tick_at: next(made) for tick_at in due.ticks}, limited) for due in batch
            ]
            report = await self._store.fire_schedules(firings, term, now)
        await publish_hints(self._broker, report.cancelled)
        await publish_ready(self._broker, report.ready)
        if report.fired or report.skipped:
            log.info("schedules_fired", fired=report.fired, skipped=report.skipped, stale=report.stale)
        return len(batch) - report.stale


def _due_schedule(schedule: Schedule, now: Instant) -> _DueSchedule:
    planned = plan_ticks(schedule, now)
    held = () if schedule.held_at is None else (schedule.held_at,)
    return _DueSchedule(schedule, planned, (*held, *planned.ticks))


def _batches(schedules: Sequence[_DueSchedule]) -> Iterator[Sequence[_DueSchedule]]:
    """Batches in which all ticks of a schedule stay together: it is settled by one transaction."""
    batch: list[_DueSchedule] = []
    size = 0
    for due in schedules:
        if batch and size + len(due.ticks) > MAX_TICKS:
            yield batch
            batch, size = [], 0
        batch.append(due)
        size += len(due.ticks)
    if batch:
        yield batch
