"""The agent of a node: its parts wired together, and its life from the first session to the last sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from crawlfleet.execution.agent.config import AllowHosts, Config, hosts_unheard
from crawlfleet.execution.agent.drain import Drain
from crawlfleet.execution.agent.events import AgentEvent, OnEvent, unheard
from crawlfleet.execution.agent.sync.masters import Masters
from crawlfleet.execution.agent.sync.rejections import Rejections
from crawlfleet.execution.agent.sync.session import Credentials, LeavingUnopened, NodeRemoved, SessionOpener
from crawlfleet.execution.agent.sync.sync import SyncEnding, Syncer, SyncParts
from crawlfleet.execution.agent.sync.sync_commands import SyncCommands, Tombstones
from crawlfleet.execution.agent.sync.sync_trigger import SyncTrigger
from crawlfleet.execution.agent.work.host_grants import HostGrants
from crawlfleet.execution.agent.work.lease_guard import MARGIN_S, LeaseGuard, NodeLease
from crawlfleet.execution.agent.work.outbox import Outbox
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.quota_slices import QuotaSlices
from crawlfleet.execution.agent.work.runner import Runner
from crawlfleet.execution.agent.work.slots import Slots
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.executor import Executor
from crawlfleet.ports.transport import MasterTransport
from crawlfleet.wire.sync import MeasurementBody, ProgressBody

DRAIN_S = 30.0


class Departure(StrEnum):
    LEFT = "left"
    """Asked to, with everything handed over."""
    REMOVED = "removed"
    """The node is not known any more."""
    GAVE_UP = "gave_up"
    """Asked to leave, but no master took what was left to say; outcomes stay on disk for the next start."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    node: int
    secret: str
    outbox_directory: Path
    slots: int
    task_types: Sequence[str]
    prefetch: int = 0
    """Assignments accepted beyond the slots, to wait for one."""
    lease_margin_s: float = MARGIN_S
    leave_patience_s: float = 8.0
    """How long masters are still tried when nothing runs any more, or the deadline of leaving has passed. Less than the
    ten seconds that those who stop processes usually give them."""
    is_outbox_synced: bool = True


class Agent:
    """Runs once: a restarted node is a new agent over the same outbox directory."""

    def __init__(
        self,
        settings: AgentSettings,
        masters: Sequence[MasterTransport],
        executor: Executor,
        *,
        clock: Clock,
        rng: Random,
        measure: Callable[[], MeasurementBody],
        on_event: OnEvent = unheard,
        allow_hosts: AllowHosts = hosts_unheard,
        progress: Callable[[], list[ProgressBody]] = list,
        grants: HostGrants | None = None,
        slices: QuotaSlices | None = None,
    ) -> None:
        self._settings = settings
        self._on_event = on_event
        self._outbox = Outbox(settings.outbox_directory, is_synced=settings.is_outbox_synced)
        self._slots = Slots(settings.slots, settings.prefetch)
        self._limit: asyncio.Timeout | None = None
        self._leave_at: float | None = None
        self._left = asyncio.Event()
        self._clock = clock
        known_masters = Masters(masters, rng)
        news, lease = SyncTrigger(clock), NodeLease(clock, settings.lease_margin_s)
        self._outcomes = Outcomes(self._outbox, clock, news, on_event)
        self._runner = Runner(
            executor, self._slots, self._outcomes, lease=lease, sync_trigger=news, clock=clock, on_event=on_event
        )
        self._guard = LeaseGuard(lease, clock, self._runner.stop_for_lease)
        self._drain = Drain(self._runner, news=news, clock=clock, on_event=on_event)
        config, rejections = Config(allow_hosts), Rejections(clock)
        self._grants = grants or HostGrants(clock)
        self._grants.attach_sync(lease, news.schedule_sync)
        slices = slices or QuotaSlices()
        slices.attach_sync(news.schedule_sync)
        orders = SyncCommands(
            self._runner,
            self._slots,
            self._outcomes,
            lease=lease,
            drain=self._drain,
            config=config,
            grants=self._grants,
            slices=slices,
            tombstones=Tombstones(),
        )
        self._opener = SessionOpener(
            Credentials(settings.node, settings.secret, settings.task_types),
            known_masters,
            runner=self._runner,
            slots=self._slots,
            outcomes=self._outcomes,
            guard=self._guard,
            drain=self._drain,
            config=config,
            grants=self._grants,
            rejections=rejections,
            clock=clock,
            on_event=on_event,
        )
        parts = SyncParts(
            self._runner,
            self._slots,
            self._outcomes,
            orders,
            lease,
            self._guard,
            self._drain,
            news,
            config,
            self._grants,
            slices,
            rejections,
        )
        self._syncer = Syncer(settings.node, known_masters, parts, measure, progress, clock=clock, on_event=on_event)

    async def run(self) -> Departure:
        """Until the node left or was removed. Cancelling it is like killing the process: nothing more is saved."""
        try:
            async with asyncio.TaskGroup() as group:
                self._runner.attach_group(group)
                alarms = [group.create_task(part.timer.run()) for part in (self._guard, self._drain)]
                alarms.append(group.create_task(self._hurry_when_idle()))
                try:
                    departure = await self._live()
                    await self._slots.wait_until_empty()
                finally:
                    self._runner.cancel_all()
                    self._grants.close()
                    for alarm in alarms:
                        alarm.cancel()
            self._outcomes.save()
        finally:
            self._outbox.close()
        self._on_event(AgentEvent.LEFT, {"reason": departure})
        self._left.set()
        return departure

    def request_leave(self, within_s: float = DRAIN_S) -> None:
        """Take no new work, let what runs end within this span, hand back the rest, and go. For signal handlers."""
        self._drain.leave(within_s)
        self._leave_within(within_s + self._settings.leave_patience_s)

    async def drain(self, deadline_s: float = DRAIN_S) -> None:
        """`request_leave`, and wait until the agent has left."""
        self.request_leave(deadline_s)
        await self._left.wait()

    async def _hurry_when_idle(self) -> None:
        """The time to drain is for what runs: once nothing does, only the goodbye is left to say."""
        await self._drain.leaving.wait()
        await self._slots.wait_until_empty()
        self._leave_within(self._settings.leave_patience_s)

    def _leave_within(self, seconds: float) -> None:
        leave_at = self._clock.monotonic() + seconds
        self._leave_at = leave_at if self._leave_at is None else min(self._leave_at, leave_at)
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(self._leave_by_loop())

    def _leave_by_loop(self) -> float | None:
        """The same instant by the loop's own time, which does not count the machine's sleep."""
        if self._leave_at is None:
            return None
        return asyncio.get_running_loop().time() + self._leave_at - self._clock.monotonic()

    async def _live(self) -> Departure:
        limit = asyncio.timeout_at(self._leave_by_loop())
        try:
            async with limit:
                self._limit = limit
                return await self._live_sessions()
        except TimeoutError:
            if not limit.expired():
                raise
            return Departure.GAVE_UP
        finally:
            self._limit = None

    async def _live_sessions(self) -> Departure:
        ending: SyncEnding | None = None
        while ending in (None, SyncEnding.SESSION_ENDED):
            try:
                session = await self._opener.open_session()
            except NodeRemoved:
                return Departure.REMOVED
            except LeavingUnopened:
                return Departure.LEFT
            ending = await self._syncer.run(session)
        return Departure.REMOVED if ending is SyncEnding.REMOVED else Departure.LEFT
