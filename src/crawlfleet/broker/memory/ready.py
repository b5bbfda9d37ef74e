"""The ready index in memory: windows over the lanes of ready tasks.

It is subtle because three parties work on it without a lock: masters offer ids after their commit, the leader takes
them, and the leader reads the head of a lane from the store and refills the window some time after that read.

- A window is the oldest part of its lane, without a gap. So a deep window takes no id beyond its last one, even when
  it is not full: ids that were dropped before, and are older, would be overtaken.
- Ids that are dropped between the leader's read and its refill are not in what it read. They are remembered in
  `beyond`; a refill that reached the end of the lane adds them, and one that cannot know all of them stays deep.
- Ids that were taken between the read and the refill, or that are being placed and are still pending in the store,
  would come back with the refill. They are remembered for some seconds, and not longer: an id that is ready again
  although its offer was lost must not be hidden for good.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence

from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId
from crawlfleet.ports.broker import Window

TAKEN_MEMORY_S = 5.0
_MAX_TAKEN = 100_000
_FEW = 8
"""Largest number of ids that are inserted one by one; a longer list is merged."""


class MemoryReadyIndex:
    def __init__(self, window: int, total: int, time: Callable[[], float] | None = None) -> None:
        self._window = window
        self._total = total
        self._size = 0
        self._lanes: dict[LaneId, _Lane] = {}
        self._changed: set[LaneId] = set()
        self._taken = _RecentlyTaken(time or _loop_time)

    async def offer_tasks(self, ready: Mapping[LaneId, Sequence[TaskId]]) -> None:
        for lane_id, tasks in ready.items():
            if not tasks:
                continue
            self._taken.forget_tasks(tasks)
            lane = self._touch_lane(lane_id)
            before = len(lane.window)
            lane.add_tasks(sorted(tasks), self._window)
            self._size += len(lane.window) - before
        self._shrink_windows()

    async def list_windows(self) -> list[Window]:
        return [_lane_window(lane_id, lane) for lane_id, lane in self._lanes.items()]

    async def pop_changed_windows(self) -> list[Window]:
        changed, self._changed = self._changed, set()
        return [_lane_window(lane_id, self._lanes.get(lane_id)) for lane_id in changed]

    async def pop_tasks(self, counts: Mapping[LaneId, int]) -> dict[LaneId, list[TaskId]]:
        popped: dict[LaneId, list[TaskId]] = {}
        for lane_id, count in counts.items():
            lane = self._lanes.get(lane_id)
            if lane is None or count <= 0 or not lane.window:
                continue
            oldest = lane.window[:count]
            del lane.window[:count]
            self._size -= len(oldest)
            self._taken.add_tasks(oldest)
            self._changed.add(lane_id)
            popped[lane_id] = oldest
            self._drop_if_idle(lane_id, lane)
        return popped

    async def refill_window(self, lane: LaneId, heads: Sequence[TaskId], is_deep: bool) -> None:
        filled = self._touch_lane(lane)
        before = len(filled.window)
        filled.fill_window(heads, self._taken, is_deep, self._window)
        self._size += len(filled.window) - before
        self._drop_if_idle(lane, filled)
        self._shrink_windows()

    async def discard_tasks(self, tasks: Sequence[tuple[LaneId, TaskId]]) -> None:
        for lane_id, task in tasks:
            lane = self._lanes.get(lane_id)
            if lane is None:
                continue
            self._size -= lane.discard_task(task)
            self._changed.add(lane_id)
            self._drop_if_idle(lane_id, lane)

    async def drop_windows(self, lanes: Sequence[LaneId]) -> None:
        for lane_id in lanes:
            lane = self._lanes.pop(lane_id, None)
            if lane is not None:
                self._size -= len(lane.window)
                self._changed.add(lane_id)

    async def clear(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        self._changed.update(self._lanes)
        self._lanes.clear()
        self._taken.clear()
        self._size = 0

    def _touch_lane(self, lane_id: LaneId) -> _Lane:
        """Return the lane, created if it is missing, and mark it as changed."""
        self._changed.add(lane_id)
        lane = self._lanes.get(lane_id)
        if lane is None:
            lane = self._lanes[lane_id] = _Lane()
        return lane

    def _drop_if_idle(self, lane_id: LaneId, lane: _Lane) -> None:
        if not lane.window and not lane.is_deep:
            del self._lanes[lane_id]

    def _shrink_windows(self) -> None:
        """Enforce the limit over all lanes: the fullest lanes drop their newest ids, down to one common level."""
        excess = self._size - self._total
        if excess <= 0:
            return
        sizes = sorted((len(lane.window) for lane in self._lanes.values()), reverse=True)
        level, spare = _water_level(sizes, excess)
        fullest = [(lane_id, lane) for lane_id, lane in self._lanes.items() if len(lane.window) > level]
        for position, (lane_id, lane) in enumerate(fullest):
            keep = level + (position >= len(fullest) - spare)
            if len(lane.window) > keep:
                self._size -= len(lane.window) - keep
                self._changed.add(lane_id)
                lane.cut_window(keep, self._window)


class _Lane:
    __slots__ = ("beyond", "is_deep", "reach", "window")

    def __init__(self) -> None:
        self.window: list[TaskId] = []
        self.is_deep = False
        self.beyond: set[TaskId] = set()
        """Ids dropped since the last refill, the oldest of them; filled only while the lane is deep."""
        self.reach: TaskId | None = None
        """Last id of `beyond` when it could not hold all dropped ids (later ones are not known), otherwise None."""

    def add_tasks(self, tasks: list[TaskId], limit: int) -> None:
        """Insert sorted ids at their positions in the window."""
        window = self.window
        if self.is_deep:
            reach = bisect_right(tasks, window[-1]) if window else 0
            self._note_dropped(tasks[reach:], limit)
            tasks = tasks[:reach]
        if not tasks:
            return
        if not window or tasks[0] > window[-1]:
            window.extend(dict.fromkeys(tasks))
        elif len(tasks) <= _FEW:
            for task in tasks:
                place = bisect_left(window, task)
                if place == len(window) or window[place] != task:
                    window.insert(place, task)
        else:
            window[:] = dict.fromkeys(sorted(window + tasks))
        if len(window) > limit:
            self.cut_window(limit, limit)

    def fill_window(self, heads: Sequence[TaskId], taken: _RecentlyTaken, is_deep: bool, limit: int) -> None:
        window = self.window
        window[:] = sorted({*window, *taken.without_taken(heads), *self.beyond})
        ends = [] if self.reach is None else [self.reach]
        if is_deep and heads:
            ends.append(max(heads))
        if ends:
            # Which ids the store has after that end is not known: cut there, so that the window has no gap.
            del window[bisect_right(window, min(ends)) :]
        self.is_deep = is_deep or self.reach is not None or len(window) > limit
        self.beyond, self.reach = set(), None
        del window[limit:]

    def cut_window(self, keep: int, limit: int) -> None:
        self.is_deep = True
        self._note_dropped(self.window[keep:], limit)
        del self.window[keep:]

    def discard_task(self, task: TaskId) -> int:
        """Remove an id, and return how many ids the window lost: one or none."""
        self.beyond.discard(task)
        place = bisect_left(self.window, task)
        if place == len(self.window) or self.window[place] != task:
            return 0
        del self.window[place]
        return 1

    def _note_dropped(self, tasks: list[TaskId], limit: int) -> None:
        if self.reach is not None:
            tasks = tasks[: bisect_right(tasks, self.reach)]
        self.beyond.update(tasks)
        if len(self.beyond) > limit:
            oldest = sorted(self.beyond)[:limit]
            self.beyond, self.reach = set(oldest), oldest[-1]


class _RecentlyTaken:
    """The ids taken within the last seconds, in two sets, of which the older is dropped at each rotation."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._young: set[TaskId] = set()
        self._old: set[TaskId] = set()
        self._rotated_at: float | None = None

    def add_tasks(self, tasks: list[TaskId]) -> None:
        self._rotate_sets()
        self._young.update(tasks)

    def forget_tasks(self, tasks: Sequence[TaskId]) -> None:
        if self._young:
            self._young.difference_update(tasks)
        if self._old:
            self._old.difference_update(tasks)

    def without_taken(self, tasks: Sequence[TaskId]) -> list[TaskId]:
        self._rotate_sets()
        return [task for task in tasks if task not in self._young and task not in self._old]

    def clear(self) -> None:
        self._young, self._old, self._rotated_at = set(), set(), None

    def _rotate_sets(self) -> None:
        now = self._time()
        if self._rotated_at is None:
            self._rotated_at = now
        age = now - self._rotated_at
        if age < TAKEN_MEMORY_S and len(self._young) < _MAX_TAKEN:
            return
        self._old = self._young if age < 2 * TAKEN_MEMORY_S else set()
        self._young, self._rotated_at = set(), now


def _lane_window(lane_id: LaneId, lane: _Lane | None) -> Window:
    if lane is None:
        return Window(lane_id, 0, 0, is_deep=False)
    return Window(lane_id, lane.window[0] if lane.window else 0, len(lane.window), lane.is_deep)


def _water_level(sizes: Sequence[int], excess: int) -> tuple[int, int]:
    """Compute the level to which the fullest lanes are cut, and how many of them may keep one id more than that."""
    freed = 0
    for count, size in enumerate(sizes, start=1):
        below = sizes[count] if count < len(sizes) else 0
        step = count * (size - below)
        if freed + step >= excess:
            down, rest = divmod(excess - freed, count)
            level = size - down - (rest > 0)
            return level, count - rest if rest else 0
        freed += step
    return 0, 0


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
