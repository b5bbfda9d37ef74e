"""The store of schedules and their ticks. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import ScheduleId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.schedule import Plan, Schedule, Tick
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.ports.task_store import Accepted, Applied, Claim, NewTask


class ScheduleFilter(NamedTuple):
    """The conditions of a list of schedules."""

    project: str | None = None
    task_type: str | None = None
    is_paused: bool | None = None


class ScheduleAnswer(NamedTuple):
    """The answer to a schedule that was added."""

    schedule: Schedule
    is_replay: bool = False
    """Whether an earlier request under the same idempotency key added the schedule."""


class Firing(NamedTuple):
    """The decision about a due schedule: made on the record, written if that is still the stored one."""

    schedule: Schedule
    plan: Plan
    tasks: Mapping[Instant, NewTask | Refusal]
    """Tasks of the ticks that may fire: those of the plan, and the one that was held."""
    limited: Collection[str] = ()
    """Projects that have quotas on waiting tasks: if one is exceeded, a tick is refused."""


@dataclass(slots=True)
class Fired:
    """The result of firing schedules, for the broker's hints and for the log."""

    fired: int = 0
    skipped: int = 0
    stale: int = 0
    """Number of schedules that were changed meanwhile; they are tried again."""
    ready: dict[LaneId, list[TaskId]] = field(default_factory=dict)
    cancelled: Applied = field(default_factory=Applied)


class HandRun(NamedTuple):
    """A person's order to run a schedule now."""

    schedule: ScheduleId
    task: NewTask | Refusal
    is_forced: bool
    """Whether the task is submitted despite the overlap policy."""
    claim: Claim | None = None
    limited: Collection[str] = ()
    """Projects that have quotas on waiting tasks, as in `Firing`."""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The answer to a run by hand."""

    item: Accepted | Refusal
    is_replay: bool = False
    ready: Mapping[LaneId, Sequence[TaskId]] = field(default_factory=dict)
    cancelled: Applied = field(default_factory=Applied)


class ScheduleStore(Protocol):
    """Access to schedules and their ticks."""

    async def add_schedule(self, make: Callable[[], Schedule], claim: Claim | None, now: Instant) -> ScheduleAnswer:
        """Add a schedule. `make` is called only where the claim has no answer yet; if it raises, nothing changes.

        Raises OverLimit when there are too many, IdempotencyMismatch for another body under a known key.
        """
        ...

    async def change_schedule(
        self, schedule: ScheduleId, change: Callable[[Schedule], Schedule], now: Instant
    ) -> Schedule:
        """Change a schedule. `change` gets the locked record; if it raises, nothing changes. Raises NotFound."""
        ...

    async def remove_schedule(self, schedule: ScheduleId, now: Instant) -> None:
        """Remove a schedule; its tasks stay. Raises NotFound."""
        ...

    async def find_schedule(self, schedule: ScheduleId) -> Schedule | None: ...

    async def list_schedules(
        self, where: ScheduleFilter, limit: int, before: ScheduleId | None = None
    ) -> RecordPage[Schedule]:
        """List schedules, newest first."""
        ...

    async def list_ticks(self, schedule: ScheduleId, limit: int) -> list[Tick]:
        """Return the ticks of a schedule, newest first."""
        ...

    async def due_schedules(self, now: Instant, limit: int) -> list[Schedule]:
        """Return schedules with a tick that is due, the longest due first, or with a held one that need not wait."""
        ...

    async def next_due(self) -> Instant | None:
        """Return the instant at which the next tick of any schedule fires."""
        ...

    async def fire_schedules(self, firings: Sequence[Firing], term: int, now: Instant) -> Fired:
        """Write the ticks, their tasks and the progress of their schedules, in one transaction under the term."""
        ...

    async def run_schedule(self, run: HandRun, now: Instant) -> RunAnswer:
        """Submit a task of the schedule outside of its ticks.

        By its overlap policy it is refused (NOT_READY) while another one has not ended, unless forced. Raises NotFound;
        OverLimit above a quota on waiting tasks: then nothing is changed.
        """
        ...
