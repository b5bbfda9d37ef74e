"""Daily quotas: what of a project's day is granted to executions.

What is granted and not given back never passes the quota, at no instant. What an execution did not use comes back with
the outcome that says so, in the transaction that takes it; one that dies without a word keeps all it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.daily_quota import Amounts, Day, Slice, Want
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant


class DailyStore(Protocol):
    async def grant_slices(self, wants: Sequence[Want], now: Instant) -> list[Slice | None]:
        """One answer per want, in order; None for whoever is not the live execution of its task on its node.

        A want under a number that was granted before is told what it was told then, and granted nothing.
        """
        ...

    async def day_uses(self, projects: Sequence[str], day: Day) -> dict[str, Amounts]:
        """What was granted of the day and has not come back; of each of these projects."""
        ...

    async def parked_with_room(self, now: Instant, limit: int) -> list[TaskId]:
        """Tasks parked for a day of which something is left by now, no more than that would do for: the quota was
        raised, or somebody gave back what he did not use."""
        ...
