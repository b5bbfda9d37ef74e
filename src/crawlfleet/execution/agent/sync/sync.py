"""The sync loop: the one call every node makes, again and again.

    pending     One call waits at a master (a long poll) until there is something to answer, for at most two seconds.
    overtaken   When something ends here meanwhile, the next number goes up at once, and the master answers the older
                call empty. Its answer, if it comes, is handled like any other: every command is applied once.
    silent      A call that is not answered when the next one is due may be lost: the next master is called, without
                a long poll. Several such tries fit into a lease.
    given up    When two calls wait at one master and both are silent, the older one ends before its time, as if it
                had timed out: a master that stands still must not keep the node from calling the next one.

There are never more than two calls under way. Each carries everything that is not acknowledged, so a lost call or a
lost answer needs no bookkeeping. While a call with outcomes is on its way (it is answered at once), outcomes are
batched for the next one: a busy node sends few, full messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

import msgspec

from crawlfleet.errors import CrawlfleetError, InvariantBroken, NotAllowed, NotFound, SessionEnded
from crawlfleet.execution.agent.config import Config
from crawlfleet.execution.agent.drain import NodeDrain
from crawlfleet.execution.agent.events import AgentEvent, OnEvent
from crawlfleet.execution.agent.sync.masters import Masters
from crawlfleet.execution.agent.sync.session import Session
from crawlfleet.execution.agent.sync.sync_commands import SyncCommands
from crawlfleet.execution.agent.sync.sync_trigger import SyncTrigger
from crawlfleet.execution.agent.work.lease_guard import LeaseGuard, NodeLease
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.runner import START_REPORT_S, Runner
from crawlfleet.execution.agent.work.slots import HeldExecution, Slots
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.budget.quota_slices import QuotaSlices
from crawlfleet.execution.master_calls.rejections import FIRST_PAUSE_S, Rejections
from crawlfleet.model.instants import ms
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.transport import MessageTooLarge
from crawlfleet.wire.sync import MeasurementBody, ProgressBody, StartBody, SyncDown, SyncUp, SyncVerdict

MAX_CALLS = 2
WAIT_S = 2.0
ANSWER_S = 2.5
"""Timeout of an answer beyond the time of the long poll."""
ANSWER_EXPECTED_S = 0.1
OVERTAKEN_S = 0.5
"""Timeout of an older call's answer once a newer call was answered."""
SETTLE_S = 0.01
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.05, 0.5
FIRST_IDLE_S, LONGEST_IDLE_S = 0.1, 0.5


class SyncEnding(Enum):
    """Why the sync loop of a session ended."""

    SESSION_ENDED = auto()
    REMOVED = auto()
    LEFT = auto()


@dataclass(slots=True, eq=False)
class SyncCall:
    """A sync call under way."""

    number: int
    master: str
    """Address of the master."""
    sent_at: float
    wait_s: float
    silent_at: float
    """Monotonic time from which the call counts as possibly lost."""
    timeout: asyncio.Timeout
    started: list[HeldExecution]
    has_outcomes: bool
    is_leaving: bool
    is_given_up: bool = False
    task: asyncio.Task[None] | None = None

    def mark_overtaken(self, now: float) -> None:
        """Shorten the timeout after a newer call was answered: this one must not count as under way for long."""
        self._end_by(now + OVERTAKEN_S)

    def give_up(self, now: float) -> None:
        self.is_given_up = True
        self._end_by(now)

    def _end_by(self, instant: float) -> None:
        ends_at = self.timeout.when()
        if not self.timeout.expired() and (ends_at is None or instant < ends_at):
            self.timeout.reschedule(instant)


@dataclass(frozen=True, slots=True)
class SyncParts:
    """The parts of the agent that a sync reports on and delivers to."""

    runner: Runner
    slots: Slots
    outcomes: Outcomes
    commands: SyncCommands
    lease: NodeLease
    guard: LeaseGuard
    drain: NodeDrain
    sync_trigger: SyncTrigger
    config: Config
    grants: HostGrants
    slices: QuotaSlices
    rejections: Rejections


class Syncer:
    """The sync loop of one session at a time."""

    def __init__(
        self,
        node: int,
        masters: Masters,
        parts: SyncParts,
        measure: Callable[[], MeasurementBody],
        progress: Callable[[], list[ProgressBody]],
        *,
        clock: Clock,
        on_event: OnEvent,
    ) -> None:
        self._node = node
        self._masters = masters
        self._parts = parts
        self._measure = measure
        self._progress = progress
        self._clock = clock
        self._on_event = on_event
        self._reset_session(Session(0))

    async def run(self, session: Session) -> SyncEnding:
        """Sync until the session is over; the result tells why it ended."""
        self._reset_session(session)
        self._parts.commands.start_session()
        async with asyncio.TaskGroup() as group:
            try:
                while self._ending is None:
                    await self._run_step(group)
                if self._ending is not SyncEnding.LEFT:
                    # Now, and not when the calls under way are gone.
                    self._parts.runner.abandon_all()
            finally:
                for call in self._calls:
                    if call.task is not None:
                        call.task.cancel()
        if self._ending is None:
            raise InvariantBroken("the sync loop ended without a reason")
        return self._ending

    def _reset_session(self, session: Session) -> None:
        self._session = session
        self._number = 0
        self._answered_number = 0
        self._calls: list[SyncCall] = []
        self._failures = 0
        self._idle_answers = 0
        self._not_before = self._idle_until = self._clock.monotonic()
        self._ending: SyncEnding | None = None

    async def _run_step(self, group: asyncio.TaskGroup) -> None:
        now = self._clock.monotonic()
        due_at, give_up_at, save_at = self._next_sync_at(), self._give_up_at(), self._parts.outcomes.save_at
        if due_at is not None and due_at <= now:
            self._send_sync(group, now)
        elif give_up_at is not None and give_up_at <= now:
            self._calls[0].give_up(now)
        elif save_at is not None and save_at <= now:
            self._parts.outcomes.save()
        else:
            await self._parts.sync_trigger.wait_until(
                min((instant for instant in (due_at, give_up_at, save_at) if instant is not None), default=None)
            )

    def _next_sync_at(self) -> float | None:
        """Monotonic time of the next sync; None: not before a call under way has ended."""
        if len(self._calls) >= MAX_CALLS:
            return None
        triggered_at = self._parts.sync_trigger.due_at
        if not self._calls or self._calls[-1].number != self._number:
            return max(
                self._not_before, self._idle_until if triggered_at is None else min(self._idle_until, triggered_at)
            )
        newest = self._calls[-1]
        due_at = newest.silent_at
        if triggered_at is not None:
            if newest.has_outcomes:
                triggered_at = max(triggered_at, newest.sent_at + ANSWER_EXPECTED_S)
            due_at = min(due_at, triggered_at)
        return max(due_at, self._not_before)

    def _give_up_at(self) -> float | None:
        """Monotonic time at which the older of two calls at one master is given up; None where that helps nothing."""
        if len(self._calls) < MAX_CALLS or self._calls[0].is_given_up or len(self._masters) < 2:
            return None
        if len({call.master for call in self._calls}) > 1:
            return None
        return max(call.silent_at for call in self._calls)

    def _send_sync(self, group: asyncio.TaskGroup, now: float) -> None:
        for older in self._calls:
            if older.number > self._answered_number and older.silent_at <= now:
                self._failures += 1
                self._masters.move_on(older.master)
        self._number += 1
        wait_s = self._poll_wait_s()
        unreported = self._parts.slots.unreported_starts()
        started = [
            execution
            for execution in unreported
            if execution.started_at is not None and execution.started_at <= now - START_REPORT_S
        ]
        request = self._build_sync(wait_s, started, now)
        self._parts.sync_trigger.sync_sent()
        if len(started) < len(unreported):
            youngest = max(execution.started_at or now for execution in unreported)
            self._parts.sync_trigger.schedule_sync(within_s=max(0.0, youngest + START_REPORT_S - now))
        call = SyncCall(
            self._number,
            self._masters.current,
            now,
            wait_s,
            now + wait_s + self._parts.config.sync_s / 3,
            asyncio.timeout(wait_s + ANSWER_S),
            started,
            has_outcomes=bool(request.outcomes),
            is_leaving=request.is_leaving,
        )
        self._calls.append(call)
        call.task = group.create_task(self._await_answer(call, request), name=f"sync-{self._number}")

    def _poll_wait_s(self) -> float:
        wait_s = min(WAIT_S, self._parts.config.sync_s * 2 / 3)
        is_urgent = self._failures or self._may_leave() or self._parts.lease.left_s < wait_s + 1
        return 0.0 if is_urgent else wait_s

    def _may_leave(self) -> bool:
        parts = self._parts
        return parts.drain.is_leaving and not len(parts.slots) and not len(parts.outcomes)

    def _build_sync(self, wait_s: float, started: list[HeldExecution], now: float) -> SyncUp:
        parts = self._parts
        batch = parts.outcomes.next_batch()
        host_wants, host_news = parts.grants.build_report(self._number)
        return SyncUp(
            node=self._node,
            session=self._session.number,
            number=self._number,
            wait_ms=ms(wait_s),
            held=parts.slots.held_ids() + batch.remaining,
            started=[
                StartBody(execution.assignment.task, execution.id, ms(now - (execution.started_at or now)))
                for execution in started
            ],
            outcomes=batch.outcomes,
            measurement=msgspec.structs.replace(self._measure(), running=len(parts.slots.running_executions())),
            slots=parts.slots.offered_count,
            is_draining=parts.drain.is_draining,
            is_leaving=self._may_leave(),
            config_version=parts.config.version,
            config_mark=parts.config.mark,
            progress=self._progress(),
            grants_taken=parts.grants.applied_version,
            hosts=host_wants,
            host_news=host_news,
            wants=parts.slices.pending_requests(),
            figures=parts.grants.host_stats.next_batch(self._session.number, self._number, is_last=self._may_leave()),
            is_departing=parts.drain.is_leaving,
            masters_mark=self._masters.mark,
        )

    async def _await_answer(self, call: SyncCall, request: SyncUp) -> None:
        try:
            async with call.timeout:
                answer = await self._masters.transport(call.master).sync(request)
        except (NotAllowed, NotFound) as exc:
            self._report_failure(call, exc)
            self._handle_rejection(call)
        except SessionEnded:
            self._end_session()
        except (CrawlfleetError, TimeoutError) as exc:
            if isinstance(exc, MessageTooLarge):
                self._parts.outcomes.shrink_batches(request.outcomes, refusal=exc)
            elif isinstance(exc, TimeoutError) and call.number > self._answered_number:
                self._parts.outcomes.shrink_batches(request.outcomes)
            self._report_failure(call, exc)
            self._schedule_retry(call)
        else:
            self._apply_answer(call, answer)
        finally:
            self._calls.remove(call)
            self._parts.sync_trigger.wake()

    def _report_failure(self, call: SyncCall, exc: Exception) -> None:
        data: dict[str, object] = {"call": "sync", "master": call.master, "error": repr(exc)}
        self._on_event(AgentEvent.CALL_FAILED, data)

    def _schedule_retry(self, call: SyncCall) -> None:
        if call.number < self._answered_number:
            return
        self._failures += 1
        self._masters.move_on(call.master)
        backoff_s = self._masters.backoff_s(self._failures, FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
        self._not_before = self._clock.monotonic() + backoff_s

    def _handle_rejection(self, call: SyncCall) -> None:
        """Handle a master that does not know the node: executions go on as long as the lease allows."""
        rejections = self._parts.rejections
        rejections.record_rejection()
        if rejections.are_believed:
            self._ending = self._ending or SyncEnding.REMOVED
        self._schedule_retry(call)
        if call.number >= self._answered_number:
            # While the lease lasts, a short time of rejections must not use it up.
            pause_s = rejections.pause_s if self._parts.lease.is_over else min(FIRST_PAUSE_S, rejections.pause_s)
            self._not_before = max(self._not_before, self._clock.monotonic() + self._masters.add_jitter(pause_s))

    def _apply_answer(self, call: SyncCall, answer: SyncDown) -> None:
        if self._ending is not None:
            return
        self._parts.rejections.clear()
        is_new = self._parts.commands.drop_acknowledged(answer.acknowledged, self._number)
        # An older call may have been answered after these outcomes were stored: its stop command dropped them first.
        is_new = is_new or (call.has_outcomes and bool(answer.acknowledged))
        match answer.verdict:
            case SyncVerdict.OK:
                self._renew_lease(call)
                self._masters.apply_list(answer.masters)
                is_new = self._parts.commands.apply_answer(answer, call.number, self._number) or is_new
                if call.is_leaving:
                    self._ending = SyncEnding.LEFT
            case SyncVerdict.STALE_NUMBER:
                pass
            case SyncVerdict.SESSION_ENDED:
                self._end_session()
            case SyncVerdict.REMOVED:
                self._ending = SyncEnding.REMOVED
            case _:
                assert_never(answer.verdict)
        self._pace_next_sync(call, is_new)
        if answer.assignments:
            # Short executions end at once: one call then reports them and asks for more.
            self._idle_until = self._clock.monotonic() + SETTLE_S
        elif is_new and not len(self._parts.slots):
            # All of it is over and acknowledged: nothing is left to wait for.
            self._idle_until = self._clock.monotonic()
        if is_new and self._may_leave():
            self._parts.sync_trigger.schedule_sync()

    def _renew_lease(self, call: SyncCall) -> None:
        self._parts.guard.renew_lease(call.sent_at)
        self._parts.grants.sync_answered(call.number)
        for execution in call.started:
            execution.is_start_reported = True
        if call.number > self._answered_number:
            self._answered_number = call.number
            self._failures = 0
            self._not_before = self._clock.monotonic()
        for older in self._calls:
            if older.number < call.number:
                older.mark_overtaken(self._clock.monotonic())

    def _pace_next_sync(self, call: SyncCall, is_new: bool) -> None:
        """Delay the next sync when a master answers empty without parking the call: no busy loop."""
        took_s = self._clock.monotonic() - call.sent_at
        if is_new or call.number < self._number or took_s >= max(FIRST_IDLE_S, call.wait_s / 2):
            self._idle_answers = 0
            return
        idle_s = min(LONGEST_IDLE_S, FIRST_IDLE_S * 2 ** min(self._idle_answers, 10))
        self._idle_answers += 1
        self._idle_until = call.sent_at + idle_s

    def _end_session(self) -> None:
        if self._ending is None:
            self._on_event(AgentEvent.SESSION_ENDED, {"session": self._session.number})
            self._ending = SyncEnding.SESSION_ENDED
