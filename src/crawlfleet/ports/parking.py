"""The store of parked tasks. `TaskStore.change` parks them; a task that is ready or final is no longer parked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from crawlfleet.model.execution import ParkCause
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.task import ParkedTask


class ParkingStore(Protocol):
    """Access to the parking records of tasks."""

    async def parkings(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, ParkedTask]:
        """Return the parking records of those tasks that are parked now."""
        ...

    async def parked_times(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, int]:
        """Return how often each task was parked in its round; only for tasks that were parked."""
        ...

    async def parked_for(self, cause: ParkCause, subject: str, limit: int) -> list[TaskId]:
        """Return tasks that are parked for this subject, those that wait longest first."""
        ...

    async def parked_in_vain(self, now: Instant, limit: int) -> list[TaskId]:
        """Return tasks parked for a host whose back-off ended early, for example because a person ended it."""
        ...
