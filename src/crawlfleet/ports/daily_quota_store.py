"""The store of daily quotas: how much of a project's day is granted to executions.

At no instant does the amount that is granted and not returned exceed the quota. The amount that an execution did not
use is returned with the outcome that reports it, in the transaction that accepts the outcome; an execution that dies
without an outcome keeps all it was granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.daily_quota import Amounts, Day, Slice, Want
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant


class DailyStore(Protocol):
    """Access to the daily quotas of projects and their quota slices."""

    async def grant_slices(self, wants: Sequence[Want], now: Instant) -> list[Slice | None]:
        """Grant quota slices: one answer per request, in order; None if it is not the live execution on its node.

        A request under a number that was granted before gets the same answer as then, and is granted nothing more.
        """
        ...

    async def day_uses(self, projects: Sequence[str], day: Day) -> dict[str, Amounts]:
        """Return, for each of these projects, the amount granted of the day that was not returned."""
        ...

    async def parked_with_room(self, now: Instant, limit: int) -> list[TaskId]:
        """Find tasks parked for a day of which something is left by now, no more of them than that suffices for.

        That happens when the quota was raised, or when an execution returned what it did not use.
        """
        ...
