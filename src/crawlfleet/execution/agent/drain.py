"""Draining: no new work, a deadline for what runs, then the rest is handed back.

A master's order (maintenance) is repeated in each answer and ends when an answer leaves it out: the node goes on
syncing and accepts work again. Leaving (SIGTERM) does not end: when nothing is held and every outcome is acknowledged,
the last sync announces it.
"""

from __future__ import annotations

import asyncio

from crawlfleet.execution.agent.events import AgentEvent, OnEvent
from crawlfleet.execution.agent.sync.sync_trigger import SyncTrigger
from crawlfleet.execution.agent.work.deadline_timer import DeadlineTimer
from crawlfleet.execution.agent.work.runner import Runner
from crawlfleet.ports.clock import Clock


class NodeDrain:
    """The drain of the node: ordered by a master, or because the agent leaves."""

    def __init__(self, runner: Runner, *, sync_trigger: SyncTrigger, clock: Clock, on_event: OnEvent) -> None:
        self._runner = runner
        self._sync_trigger = sync_trigger
        self._clock = clock
        self._on_event = on_event
        self._ordered_by: float | None = None
        self._leave_by: float | None = None
        self.leaving = asyncio.Event()
        self.timer = DeadlineTimer(clock, runner.hand_back_all)

    @property
    def is_draining(self) -> bool:
        return self._ordered_by is not None or self._leave_by is not None

    @property
    def is_leaving(self) -> bool:
        return self._leave_by is not None

    def apply_order(self, within_s: float | None) -> bool:
        """Apply a master's order to drain within this span, or (None) to accept work; True when it changed anything."""
        was_draining = self.is_draining
        self._ordered_by = None if within_s is None else self._clock.monotonic() + within_s
        self._apply_deadlines(was_draining, within_s)
        return was_draining != self.is_draining

    def start_leaving(self, within_s: float) -> None:
        """Drain and leave within this span; when called again, the earlier deadline holds."""
        was_draining = self.is_draining
        leave_by = self._clock.monotonic() + within_s
        self._leave_by = leave_by if self._leave_by is None else min(self._leave_by, leave_by)
        self._apply_deadlines(was_draining, within_s)
        self.leaving.set()
        self._sync_trigger.schedule_sync()

    def _apply_deadlines(self, was_draining: bool, within_s: float | None) -> None:
        deadlines = [deadline for deadline in (self._ordered_by, self._leave_by) if deadline is not None]
        self.timer.set_deadline(min(deadlines, default=None))
        if self.is_draining and not was_draining:
            self._on_event(AgentEvent.DRAIN_BEGAN, {"is_leaving": self.is_leaving, "within_s": within_s})
            self._runner.hand_back_waiting()
        elif was_draining and not self.is_draining:
            self._on_event(AgentEvent.DRAIN_ENDED, {})
        if was_draining != self.is_draining:
            self._sync_trigger.schedule_sync()
