"""What keeps the table of lanes small: a row goes when no task has stood in its lane for hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import TaskId
from crawlfleet.model.requirement import LaneId

LANE_FRESH_S = 3 * 3_600.0
"""For how long after `ensure_lanes` tasks are added to a lane without another look at its row."""
LANE_SWEEP_EVERY_S = 12 * 3_600.0
"""Between the end of one sweep and the begin of the next one. Longer than `LANE_FRESH_S` by far more than any
transaction takes: that is what makes the removal safe."""


class LanesOfTasks(NamedTuple):
    lanes: set[LaneId]
    last: TaskId
    """Up to which task all were looked at; 0 when there are no further ones."""


class LaneUpkeep(Protocol):
    async def lane_ids(self, after: LaneId, limit: int) -> list[LaneId]:
        """The next lanes in order of id."""
        ...

    async def lanes_of_tasks(self, after: TaskId, limit: int) -> LanesOfTasks:
        """The lanes that the next tasks stand in, live and final ones."""
        ...

    async def remove_unused_lanes(self, term: int, sweep: int, lanes: Sequence[LaneId]) -> int:
        """Remove those of `lanes` that an earlier sweep of this term marked and that are marked still, and mark the
        others; how many went. No task stood in any of them when this sweep looked.

        Sweeps of a term are numbered from 1, with `LANE_SWEEP_EVERY_S` between them.
        """
        ...
