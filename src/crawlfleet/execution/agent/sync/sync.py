"""The sync loop: the one call every node makes, again and again.

    parked      One call waits at a master until there is something to say, for at most two seconds.
    overtaken   When something ends here meanwhile, the next number goes up at once, and the master answers the older
                call empty. Its answer, if it comes, is handled like any other: every order is done once.
    silent      A call that is not answered when the next one is due may be lost: the next master is asked, without
                parking. Several such tries fit into a lease.

There are never more than two calls under way. Each carries everything that is not acknowledged, so a lost call or a
lost answer needs no bookkeeping. While a call with outcomes is on its way (it is answered at once), what ends is
gathered for the next one: a busy node sends few, full messages.
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
from crawlfleet.execution.agent.drain import Drain
from crawlfleet.execution.agent.events import AgentEvent, OnEvent
from crawlfleet.execution.agent.sync.masters import Masters
from crawlfleet.execution.agent.sync.session import Session
from crawlfleet.execution.agent.sync.sync_commands import Orders
from crawlfleet.execution.agent.sync.sync_trigger import News
from crawlfleet.execution.agent.work.lease_guard import Lease, LeaseGuard
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.runner import START_TOLD_S, Runner
from crawlfleet.execution.agent.work.slots import Running, Slots
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.budget.quota_slices import DaySlices
from crawlfleet.execution.master_calls.rejections import FIRST_PAUSE_S, Rejections
from crawlfleet.model.instants import ms
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.transport import MessageTooLarge
from crawlfleet.wire.sync import MeasurementBody, ProgressBody, StartBody, SyncDown, SyncUp, SyncVerdict

CALLS = 2
WAIT_S = 2.0
ANSWER_S = 2.5
"""How long an answer may take beyond the time the call may be parked."""
ANSWER_EXPECTED_S = 0.1
OVERTAKEN_S = 0.5
"""How long the answer to an older call is still waited for once a newer one was answered."""
SETTLE_S = 0.01
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.05, 0.5
FIRST_IDLE_S, LONGEST_IDLE_S = 0.1, 0.5


class Ending(Enum):
    SESSION_ENDED = auto()
    REMOVED = auto()
    LEFT = auto()


@dataclass(slots=True, eq=False)
class Call:
    number: int
    place: int
    """Of the master, in the list."""
    sent_at: float
    wait_s: float
    silent_at: float
    """From then on it may be lost."""
    limit: asyncio.Timeout
    started: list[Running]
    has_outcomes: bool
    is_leaving: bool
    task: asyncio.Task[None] | None = None

    def overtake(self, now: float) -> None:
        """A newer call was answered: this one must not fill its place for long."""
        ends_at = self.limit.when()
        if not self.limit.expired() and (ends_at is None or now + OVERTAKEN_S < ends_at):
            self.limit.reschedule(now + OVERTAKEN_S)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a sync speaks for."""

    runner: Runner
    slots: Slots
    outcomes: Outcomes
    orders: Orders
    lease: Lease
    guard: LeaseGuard
    drain: Drain
    news: News
    config: Config
    grants: HostGrants
    slices: DaySlices
    rejections: Rejections


class Syncer:
    def __init__(
        self,
        node: int,
        masters: Masters,
        parts: Parts,
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
        self._begin(Session(0))

    async def run(self, session: Session) -> Ending:
        """Syncs until the session is over, one way or another."""
        self._begin(session)
        self._parts.orders.begin()
        async with asyncio.TaskGroup() as group:
            try:
                while self._ending is None:
                    await self._step(group)
                if self._ending is not Ending.LEFT:
                    # Now, and not when the calls under way are gone.
                    self._parts.runner.abandon_all()
            finally:
                for call in self._calls:
                    if call.task is not None:
                        call.task.cancel()
        if self._ending is None:
            raise InvariantBroken("the sync loop ended without a reason")
        return self._ending

    def _begin(self, session: Session) -> None:
        self._session = session
        self._number = 0
        self._answered = 0
        self._calls: list[Call] = []
        self._failures = 0
        self._idle_answers = 0
        self._not_before = self._idle_until = self._clock.monotonic()
        self._ending: Ending | None = None

    async def _step(self, group: asyncio.TaskGroup) -> None:
        now = self._clock.monotonic()
        due_at, save_at = self._due_at(), self._parts.outcomes.save_at
        if due_at is not None and due_at <= now:
            self._send(group, now)
        elif save_at is not None and save_at <= now:
            self._parts.outcomes.save()
        else:
            await self._parts.news.wait(min((at for at in (due_at, save_at) if at is not None), default=None))

    def _due_at(self) -> float | None:
        """When the next call goes; None: not before one under way has ended."""
        if len(self._calls) >= CALLS:
            return None
        news_at = self._parts.news.due_at
        if not self._calls or self._calls[-1].number != self._number:
            return max(self._not_before, self._idle_until if news_at is None else min(self._idle_until, news_at))
        newest = self._calls[-1]
        due_at = newest.silent_at
        if news_at is not None:
            if newest.has_outcomes:
                news_at = max(news_at, newest.sent_at + ANSWER_EXPECTED_S)
            due_at = min(due_at, news_at)
        return max(due_at, self._not_before)

    def _send(self, group: asyncio.TaskGroup, now: float) -> None:
        for older in self._calls:
            if older.number > self._answered and older.silent_at <= now:
                self._failures += 1
                self._masters.move_on(older.place)
        self._number += 1
        wait_s = self._wait_s()
        untold = self._parts.slots.untold_starts()
        started = [one for one in untold if one.started_at is not None and one.started_at <= now - START_TOLD_S]
        up = self._up(wait_s, started, now)
        self._parts.news.told()
        if len(started) < len(untold):
            youngest = max(one.started_at or now for one in untold)
            self._parts.news.tell(within_s=max(0.0, youngest + START_TOLD_S - now))
        call = Call(
            self._number,
            self._masters.current,
            now,
            wait_s,
            now + wait_s + self._parts.config.sync_s / 3,
            asyncio.timeout(wait_s + ANSWER_S),
            started,
            has_outcomes=bool(up.outcomes),
            is_leaving=up.is_leaving,
        )
        self._calls.append(call)
        call.task = group.create_task(self._exchange(call, up), name=f"sync-{self._number}")

    def _wait_s(self) -> float:
        wait_s = min(WAIT_S, self._parts.config.sync_s * 2 / 3)
        is_urgent = self._failures or self._may_leave() or self._parts.lease.left_s < wait_s + 1
        return 0.0 if is_urgent else wait_s

    def _may_leave(self) -> bool:
        parts = self._parts
        return parts.drain.is_leaving and not len(parts.slots) and not len(parts.outcomes)

    def _up(self, wait_s: float, started: list[Running], now: float) -> SyncUp:
        parts = self._parts
        batch = parts.outcomes.batch()
        hosts, host_news = parts.grants.up(self._number)
        return SyncUp(
            node=self._node,
            session=self._session.number,
            number=self._number,
            wait_ms=ms(wait_s),
            held=parts.slots.held() + batch.left,
            started=[
                StartBody(one.assignment.task, one.execution, ms(now - (one.started_at or now))) for one in started
            ],
            outcomes=batch.outcomes,
            measurement=msgspec.structs.replace(self._measure(), running=len(parts.slots.running())),
            slots=parts.slots.offered,
            is_draining=parts.drain.is_draining,
            is_leaving=self._may_leave(),
            config_version=parts.config.version,
            config_mark=parts.config.mark,
            progress=self._progress(),
            grants_taken=parts.grants.taken,
            hosts=hosts,
            host_news=host_news,
            wants=parts.slices.up(),
            figures=parts.grants.figures.up(self._session.number, self._number, is_last=self._may_leave()),
            is_departing=parts.drain.is_leaving,
        )

    async def _exchange(self, call: Call, up: SyncUp) -> None:
        try:
            async with call.limit:
                down = await self._masters[call.place].sync(up)
        except (NotAllowed, NotFound) as exc:
            self._note_failure(call, exc)
            self._reject(call)
        except SessionEnded:
            self._end_session()
        except (CrawlfleetError, TimeoutError) as exc:
            if isinstance(exc, MessageTooLarge):
                self._parts.outcomes.send_less(up.outcomes, refusal=exc)
            elif isinstance(exc, TimeoutError) and call.number > self._answered:
                self._parts.outcomes.send_less(up.outcomes)
            self._note_failure(call, exc)
            self._retry(call)
        else:
            self._take(call, down)
        finally:
            self._calls.remove(call)
            self._parts.news.wake()

    def _note_failure(self, call: Call, exc: Exception) -> None:
        data: dict[str, object] = {"call": "sync", "master": call.place, "error": repr(exc)}
        self._on_event(AgentEvent.CALL_FAILED, data)

    def _retry(self, call: Call) -> None:
        if call.number < self._answered:
            return
        self._failures += 1
        self._masters.move_on(call.place)
        backoff_s = self._masters.backoff_s(self._failures, FIRST_BACKOFF_S, LONGEST_BACKOFF_S)
        self._not_before = self._clock.monotonic() + backoff_s

    def _reject(self, call: Call) -> None:
        """A master does not know the node: what runs goes on, as long as the lease allows."""
        rejections = self._parts.rejections
        rejections.note()
        if rejections.are_believed:
            self._ending = self._ending or Ending.REMOVED
        self._retry(call)
        if call.number >= self._answered:
            # While the lease lasts, a moment of rejections must not use it up.
            pause_s = rejections.pause_s if self._parts.lease.is_over else min(FIRST_PAUSE_S, rejections.pause_s)
            self._not_before = max(self._not_before, self._clock.monotonic() + self._masters.spread(pause_s))

    def _take(self, call: Call, down: SyncDown) -> None:
        if self._ending is not None:
            return
        self._parts.rejections.clear()
        is_new = self._parts.orders.acknowledge(down.acknowledged, self._number)
        # An older call may have been answered after this one's outcomes were stored: its stop order dropped them first.
        is_new = is_new or (call.has_outcomes and bool(down.acknowledged))
        match down.verdict:
            case SyncVerdict.OK:
                self._renew(call)
                is_new = self._parts.orders.obey(down, call.number, self._number) or is_new
                if call.is_leaving:
                    self._ending = Ending.LEFT
            case SyncVerdict.STALE_NUMBER:
                pass
            case SyncVerdict.SESSION_ENDED:
                self._end_session()
            case SyncVerdict.REMOVED:
                self._ending = Ending.REMOVED
            case _:
                assert_never(down.verdict)
        self._pace(call, is_new)
        if down.assignments:
            # Short work is over in a moment: one call then says so and asks for more.
            self._idle_until = self._clock.monotonic() + SETTLE_S
        elif is_new and not len(self._parts.slots):
            # All of it is over and acknowledged: nothing is left to wait for.
            self._idle_until = self._clock.monotonic()
        if is_new and self._may_leave():
            self._parts.news.tell()

    def _renew(self, call: Call) -> None:
        self._parts.guard.renew(call.sent_at)
        self._parts.grants.told(call.number)
        for running in call.started:
            running.is_start_told = True
        if call.number > self._answered:
            self._answered = call.number
            self._failures = 0
            self._not_before = self._clock.monotonic()
        for older in self._calls:
            if older.number < call.number:
                older.overtake(self._clock.monotonic())

    def _pace(self, call: Call, is_new: bool) -> None:
        """A master that has nothing to say and does not park the call either must not be asked in a circle."""
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
            self._ending = Ending.SESSION_ENDED
