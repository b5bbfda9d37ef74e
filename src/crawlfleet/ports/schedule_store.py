"""Schedules and their ticks. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import ScheduleId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.requirement import LaneId
from crawlfleet.model.schedule import Plan, Schedule, Tick
from crawlfleet.ports.idempotency import Claim
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.ports.task_store import Accepted, Applied, NewTask


class ScheduleFilter(NamedTuple):
    project: str | None = None
    task_type: str | None = None
    is_paused: bool | None = None


class ScheduleAnswer(NamedTuple):
    schedule: Schedule
    is_replay: bool = False


class Firing(NamedTuple):
    """What is to become of a schedule that is due: decided on the record, written if it is still that one."""

    schedule: Schedule
    plan: Plan
    tasks: Mapping[Instant, NewTask | Refusal]
    """A task for every tick that may fire: those of the plan, and the one that was held."""
    limited: Collection[str] = ()
    """Projects that have quotas on what waits: above one, a tick is refused."""


@dataclass(slots=True)
class Fired:
    """What was written, for the broker's hints and for the log."""

    fired: int = 0
    skipped: int = 0
    stale: int = 0
    """Schedules that were changed meanwhile: their turn comes again."""
    ready: dict[LaneId, list[TaskId]] = field(default_factory=dict)
    cancelled: Applied = field(default_factory=Applied)


class HandRun(NamedTuple):
    schedule: ScheduleId
    task: NewTask | Refusal
    is_forced: bool
    claim: Claim | None = None
    limited: Collection[str] = ()
    """As of a firing."""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    item: Accepted | Refusal
    is_replay: bool = False
    ready: Mapping[LaneId, Sequence[TaskId]] = field(default_factory=dict)
    cancelled: Applied = field(default_factory=Applied)


class ScheduleStore(Protocol):
    async def add_schedule(self, make: Callable[[], Schedule], claim: Claim | None, now: Instant) -> ScheduleAnswer:
        """`make` is asked only where the claim has no answer yet; what it raises changes nothing.

        Raises OverLimit when there are too many, IdempotencyMismatch for another body under a known key.
        """
        ...

    async def change_schedule(
        self, schedule: ScheduleId, change: Callable[[Schedule], Schedule], now: Instant
    ) -> Schedule:
        """`change` sees the locked record; what it raises changes nothing. Raises NotFound."""
        ...

    async def remove_schedule(self, schedule: ScheduleId, now: Instant) -> None:
        """Its tasks stay. Raises NotFound."""
        ...

    async def schedule(self, schedule: ScheduleId) -> Schedule | None: ...

    async def list_schedules(
        self, where: ScheduleFilter, limit: int, before: ScheduleId | None = None
    ) -> RecordPage[Schedule]:
        """Newest first."""
        ...

    async def ticks(self, schedule: ScheduleId, limit: int) -> list[Tick]:
        """Newest first."""
        ...

    async def due_schedules(self, now: Instant, limit: int) -> list[Schedule]:
        """With a tick that is due, the longest due first; or with one that was held and need not wait any longer."""
        ...

    async def next_due(self) -> Instant | None:
        """When the next tick of any schedule fires."""
        ...

    async def fire(self, firings: Sequence[Firing], term: int, now: Instant) -> Fired:
        """The ticks, their tasks and how far their schedules are, in one transaction under the term."""
        ...

    async def run_schedule(self, run: HandRun, now: Instant) -> RunAnswer:
        """A task of the schedule outside of its ticks. By its overlap policy it is refused (NOT_READY) while another
        goes on, unless forced. Raises NotFound; OverLimit above a quota on what waits: then nothing is changed."""
        ...
