"""Watches the order within lanes: the oldest first; or in a LIFO queue the newest, and at intervals the oldest.

The leader learns of a task a short time after it was committed. So only tasks count that were seen waiting for some
time, without a break: a task that is placed before one of those is out of order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId
from crawlfleet.scheduling.placement.lane_order import OLDEST_INTERVAL

SEEN_MS = 5_000


class OrderWatch:
    """Checks the order of placements in each lane."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lifo: set[str] = set()
        self._turned_at: dict[str, int] = {}
        self._pending_since: dict[TaskId, int] = {}
        self._placed: Counter[LaneId] = Counter()
        self._early: Counter[LaneId] = Counter()

    def observe_batch(self, batch: EventBatch) -> None:
        if batch.kind is Kind.QUEUE_CHANGED:
            queue = batch.shared["queue"]
            self._turned_at[queue] = self._now()
            (self._lifo.add if batch.shared["order"] == "lifo" else self._lifo.discard)(queue)
        else:
            for task in chain(batch.each.get("task", ())):
                self._pending_since.pop(task, None)

    def placed(
        self, lane: LaneId, queue: str, tasks: Sequence[TaskId], pending: Sequence[TaskId]
    ) -> tuple[TaskId, TaskId] | None:
        """Record placed and still waiting tasks of a lane; returns placements that violate the order of the lane."""
        now, since = self._now(), self._pending_since
        seen = [task for task in pending if now - since.setdefault(task, now) >= SEEN_MS]
        if queue in self._lifo:
            # All of them, whatever waits: the intervals at which the oldest is due are counted in placed tasks.
            self._placed[lane] += len(tasks)
        if not seen or now - self._turned_at.get(queue, -SEEN_MS) < SEEN_MS:
            return None
        if queue not in self._lifo:
            return (max(tasks), min(seen)) if min(seen) < max(tasks) else None
        newest = max(seen)
        self._early[lane] += sum(task < newest for task in tasks)
        return None

    def complaints(self) -> Iterator[str]:
        for lane, early in self._early.items():
            placed = self._placed[lane]
            if early > placed // OLDEST_INTERVAL + 1:
                yield f"{early} of {placed} tasks of lane {lane:x} went before newer ones, which are to be first"
