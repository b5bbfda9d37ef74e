"""Removal of unused lanes, which keeps their table small: a row is removed when its lane had no task for hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId

LANE_FRESH_S = 3 * 3_600.0
"""Span after `ensure_lanes` in which tasks are added to a lane without another check of its row."""
LANE_SWEEP_EVERY_S = 12 * 3_600.0
"""Span between the end of one sweep and the start of the next one. It is longer than `LANE_FRESH_S` by far more than
any transaction takes: that is what makes the removal safe."""


class LanesOfTasks(NamedTuple):
    """The lanes of a range of tasks."""

    lanes: set[LaneId]
    last: TaskId
    """Id of the last task of the range; 0 when there are no further tasks."""


class LaneUpkeep(Protocol):
    """Finds and removes lanes without tasks."""

    async def lane_ids(self, after: LaneId, limit: int) -> list[LaneId]:
        """Return the next lanes in order of id."""
        ...

    async def lanes_of_tasks(self, after: TaskId, limit: int) -> LanesOfTasks:
        """Return the lanes of the next tasks, live and final ones."""
        ...

    async def remove_unused_lanes(self, term: int, sweep: int, lanes: Sequence[LaneId]) -> int:
        """Remove those of `lanes` that an earlier sweep of this term marked and that are still marked.

        Marks the others; returns the number of removed lanes. None of the lanes had a task when this sweep checked.
        Sweeps of a term are numbered from 1, with `LANE_SWEEP_EVERY_S` between them.
        """
        ...
