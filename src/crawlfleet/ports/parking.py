"""What is known of parked tasks. They are parked by `TaskStore.change`, and no longer when they are ready or final."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.parking import ParkCause, Parking


class ParkingStore(Protocol):
    async def parkings(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, Parking]:
        """Of those that are parked now."""
        ...

    async def parked_times(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, int]:
        """How often each was parked in its round; only of tasks that were."""
        ...

    async def parked_for(self, cause: ParkCause, subject: str, limit: int) -> list[TaskId]:
        """Tasks that are parked for this, those that wait longest first."""
        ...

    async def parked_in_vain(self, now: Instant, limit: int) -> list[TaskId]:
        """Tasks parked for a host whose back-off is over before its time: a person ended it, say."""
        ...
