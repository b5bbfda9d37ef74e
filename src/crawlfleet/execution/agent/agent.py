"""The agent of a node: its parts wired together, and its life from the first session to the last sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from crawlfleet.execution.agent.config import AllowHosts, Config, SetLogLevel, ignore_hosts, ignore_level
from crawlfleet.execution.agent.drain import NodeDrain
from crawlfleet.execution.agent.events import AgentEvent, OnEvent, ignore_event
from crawlfleet.execution.agent.sync.masters import Masters
from crawlfleet.execution.agent.sync.session import Credentials, LeavingUnopened, NodeRemoved, SessionOpener
from crawlfleet.execution.agent.sync.sync import SyncEnding, Syncer, SyncParts
from crawlfleet.execution.agent.sync.sync_commands import SyncCommands, Tombstones
from crawlfleet.execution.agent.sync.sync_trigger import SyncTrigger
from crawlfleet.execution.agent.work.lease_guard import MARGIN_S, LeaseGuard, NodeLease
from crawlfleet.execution.agent.work.outbox import Outbox
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.runner import Runner
from crawlfleet.execution.agent.work.slots import Slots
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.budget.quota_slices import QuotaSlices
from crawlfleet.execution.master_calls.rejections import Rejections
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.executor import Executor
from crawlfleet.ports.transport import MasterTransport
from crawlfleet.wire.sync import MeasurementBody, ProgressBody

DRAIN_S = 30.0


class Departure(StrEnum):
    """Why the agent ended."""

    LEFT = "left"
    """Left on request, with everything handed over."""
    REMOVED = "removed"
    """Removed: the masters do not know the node any more."""
    GAVE_UP = "gave_up"
    """Asked to leave, but no master answered in time; outcomes stay on disk for the next start."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings of an agent, fixed from its start."""

    node: int
    secret: str
    outbox_directory: Path
    slots: int
    task_types: Sequence[str]
    prefetch: int = 0
    """Number of assignments accepted beyond the slots, to wait for one."""
    lease_margin_s: float = MARGIN_S
    leave_patience_s: float = 8.0
    """How long masters are still tried when nothing runs any more, or the deadline of leaving has passed. Less than the
    ten seconds that service managers usually give a process to stop."""
    is_outbox_synced: bool = True


class Agent:
    """Runs once: a restarted node is a new agent over the same outbox directory."""

    def __init__(
        self,
        settings: AgentSettings,
        masters: Sequence[MasterTransport] | Masters,
        executor: Executor,
        *,
        clock: Clock,
        rng: Random,
        measure: Callable[[], MeasurementBody],
        on_event: OnEvent = ignore_event,
        allow_hosts: AllowHosts = ignore_hosts,
        set_log_level: SetLogLevel = ignore_level,
        progress: Callable[[], list[ProgressBody]] = list,
        grants: HostGrants | None = None,
        slices: QuotaSlices | None = None,
    ) -> None:
        self._settings = settings
        self._on_event = on_event
        self._outbox = Outbox(settings.outbox_directory, is_synced=settings.is_outbox_synced)
        self._slots = Slots(settings.slots, settings.prefetch)
        self._leave_timeout: asyncio.Timeout | None = None
        self._leave_at: float | None = None
        self._left = asyncio.Event()
        self._clock = clock
        master_list = masters if isinstance(masters, Masters) else Masters.of_transports(masters, rng)
        sync_trigger, lease = SyncTrigger(clock), NodeLease(clock, settings.lease_margin_s)
        self._outcomes = Outcomes(self._outbox, clock, sync_trigger, on_event)
        self._runner = Runner(
            executor,
            self._slots,
            self._outcomes,
            lease=lease,
            sync_trigger=sync_trigger,
            clock=clock,
            on_event=on_event,
        )
        self._guard = LeaseGuard(lease, clock, self._runner.stop_for_lease)
        self._drain = NodeDrain(self._runner, sync_trigger=sync_trigger, clock=clock, on_event=on_event)
        config, rejections = Config(allow_hosts, set_log_level), Rejections(clock)
        self._grants = grants or HostGrants(clock)
        self._grants.attach_sync(lease, sync_trigger.schedule_sync)
        slices = slices or QuotaSlices()
        slices.attach_sync(sync_trigger.schedule_sync)
        commands = SyncCommands(
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
            master_list,
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
            commands,
            lease,
            self._guard,
            self._drain,
            sync_trigger,
            config,
            self._grants,
            slices,
            rejections,
        )
        self._syncer = Syncer(settings.node, master_list, parts, measure, progress, clock=clock, on_event=on_event)

    async def run(self) -> Departure:
        """Run until the node left or was removed. Cancelling it is like killing the process: nothing more is saved."""
        try:
            async with asyncio.TaskGroup() as group:
                self._runner.attach_group(group)
                timers = [group.create_task(part.timer.run()) for part in (self._guard, self._drain)]
                timers.append(group.create_task(self._hurry_when_idle()))
                try:
                    departure = await self._run_until_left()
                    await self._slots.wait_until_empty()
                finally:
                    self._runner.cancel_all()
                    self._grants.close()
                    for timer in timers:
                        timer.cancel()
            self._outcomes.save()
        finally:
            self._outbox.close()
        self._on_event(AgentEvent.LEFT, {"reason": departure})
        self._left.set()
        return departure

    def request_leave(self, within_s: float = DRAIN_S) -> None:
        """Accept no new work, let executions end in this span, hand back the rest, and leave. For signal handlers."""
        self._drain.start_leaving(within_s)
        self._leave_within(within_s + self._settings.leave_patience_s)

    async def drain(self, deadline_s: float = DRAIN_S) -> None:
        """`request_leave`, and wait until the agent has left."""
        self.request_leave(deadline_s)
        await self._left.wait()

    async def _hurry_when_idle(self) -> None:
        """Shorten the time to leave once nothing runs: then only the last sync is left to send."""
        await self._drain.leaving.wait()
        await self._slots.wait_until_empty()
        self._leave_within(self._settings.leave_patience_s)

    def _leave_within(self, seconds: float) -> None:
        leave_at = self._clock.monotonic() + seconds
        self._leave_at = leave_at if self._leave_at is None else min(self._leave_at, leave_at)
        if self._leave_timeout is not None and not self._leave_timeout.expired():
            self._leave_timeout.reschedule(self._leave_by_loop())

    def _leave_by_loop(self) -> float | None:
        """The time to leave by the event loop's clock, which does not count the machine's sleep."""
        if self._leave_at is None:
            return None
        return asyncio.get_running_loop().time() + self._leave_at - self._clock.monotonic()

    async def _run_until_left(self) -> Departure:
        timeout = asyncio.timeout_at(self._leave_by_loop())
        try:
            async with timeout:
                self._leave_timeout = timeout
                return await self._run_sessions()
        except TimeoutError:
            if not timeout.expired():
                raise
            return Departure.GAVE_UP
        finally:
            self._leave_timeout = None

    async def _run_sessions(self) -> Departure:
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
