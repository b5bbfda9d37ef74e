"""A sweep over all tasks, for lanes that none of them stands in: these are marked, and those marked before removed.

A little at a time: a step reads some windows of tasks, or writes some batches of lanes. All of it is in the leader's
memory, and a new term begins anew. Why two sweeps, and why they are hours apart, is said in `store.tasks.lane_removal`.
"""

from __future__ import annotations

import structlog

from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.maintenance_store import LANE_SWEEP_EVERY_S, RetentionStore

log = structlog.get_logger()

FEW_LANES = 1_000
"""So many rows cost less than looking for those that are not needed."""
STEP_EVERY_S = 30.0
WINDOW = 5_000
"""Tasks of each table that one statement reads."""
WINDOWS = 20
"""In a step."""
BATCH = 1_000
BATCHES = 20
MOST = 200_000
"""Lanes of one sweep; where there are more, the next one goes on with the others."""
_BEFORE_ALL: LaneId = -1


class LaneSweep:
    def __init__(self, *, store: RetentionStore, clock: Clock, few: int = FEW_LANES) -> None:
        self._store = store
        self._clock = clock
        self._few = few
        self._begin_term(None)

    def _begin_term(self, term: int | None) -> None:
        self._term = term
        self._number = 0
        self._first = _BEFORE_ALL
        """After which lane the next sweep begins."""
        self._unused: set[LaneId] | None = None
        """Lanes that this sweep has met no task in; None between sweeps."""
        self._task: TaskId | None = 0
        """Up to which task it has come; None when it has seen all."""
        self._removed = 0
        self._stepped_at = self._ended_at = float("-inf")

    async def advance(self, term: int) -> None:
        """The next step, if it is time for one."""
        if term != self._term:
            self._begin_term(term)
        at = self._clock.monotonic()
        if at - self._stepped_at < STEP_EVERY_S:
            return
        self._stepped_at = at
        if self._unused is None:
            if at - self._ended_at < LANE_SWEEP_EVERY_S:
                return
            await self._begin()
        await self._look_at_tasks()
        await self._remove(term)

    async def _begin(self) -> None:
        lanes: list[LaneId] = []
        after, is_more = self._first, True
        while is_more and len(lanes) < MOST:
            found = await self._store.lane_ids(after, BATCH)
            lanes += found
            after, is_more = (found[-1], True) if len(found) == BATCH else (_BEFORE_ALL, False)
        is_all = self._first == _BEFORE_ALL and not is_more
        self._first = after
        self._unused = set() if is_all and len(lanes) <= self._few else set(lanes)
        self._task = 0
        self._number += 1
        self._removed = 0

    async def _look_at_tasks(self) -> None:
        for _ in range(WINDOWS):
            if not self._unused or self._task is None:
                return
            lanes, last = await self._store.lanes_of_tasks(self._task, WINDOW)
            self._unused -= lanes
            self._task = last or None

    async def _remove(self, term: int) -> None:
        if self._unused and self._task is not None:
            return
        unused = sorted(self._unused or ())
        for start in range(0, min(len(unused), BATCHES * BATCH), BATCH):
            batch = unused[start : start + BATCH]
            self._removed += await self._store.remove_unused_lanes(term, self._number, batch)
            self._unused = set(unused[start + BATCH :])
        if not self._unused:
            self._unused, self._ended_at = None, self._clock.monotonic()
            if self._removed:
                log.info("lanes_removed", count=self._removed)
