"""Within a lane: first in first out exactly; last in first out with a bound for the oldest; windows within theirs."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.broker.memory.ready import MemoryReadyIndex
from crawlfleet.control.leader.queue_ordering import OrderedReadyIndex, QueueOrders
from crawlfleet.scheduling.placement.lane_order import OLDEST_INTERVAL, count_oldest_turns
from tests.property.broker.memory.test_ready_properties import now

SETTINGS = settings(max_examples=150, derandomize=True, database=None)
WINDOW, LANE = 5, 7


class Orders(QueueOrders):
    def __init__(self, *, is_lifo: bool) -> None:
        self._is_so = is_lifo

    async def lifo_lanes(self, lanes: Sequence[int]) -> set[int]:
        return set(lanes) if self._is_so else set()


class Lane:
    """A lane in the store, its window, and a leader that places from it as the dispatcher does."""

    def __init__(self, *, is_lifo: bool) -> None:
        self.is_lifo = is_lifo
        self.waiting: list[int] = []
        self.placed: list[int] = []
        self.due_by: dict[int, int] = {}
        """How many are placed at the latest when this task is."""
        self._since = 0
        broker = MemoryBroker()
        broker.ready_index = MemoryReadyIndex(WINDOW, 100, time=lambda: 0.0)
        self._index = OrderedReadyIndex(broker.ready_index, Orders(is_lifo=is_lifo))

    def add(self, count: int) -> None:
        new = [len(self.due_by) + number + 1 for number in range(count)]
        for task in new:
            older = len(self.waiting) + 1
            self.due_by[task] = len(self.placed) + older * (OLDEST_INTERVAL if self.is_lifo else 1)
            self.waiting.append(task)
        now(self._index.offer_tasks({LANE: new}))
        assert all(window.size <= WINDOW for window in now(self._index.list_windows()))

    def place(self, room: int) -> None:
        (window,) = now(self._index.list_windows()) or (None,)
        if self.waiting and (window is None or window.is_deep):
            shown = self.waiting[-WINDOW:] if self.is_lifo else self.waiting[:WINDOW]
            now(self._index.refill_window(LANE, shown, is_deep=len(shown) == WINDOW))
            (window,) = now(self._index.list_windows())
        count = min(room, window.size if window is not None else 0)
        oldest: list[int] = []
        if self.is_lifo and count:
            due, self._since = count_oldest_turns(self._since, count)
            oldest = self.waiting[:due]
        taken = now(self._index.pop_tasks({LANE: count - len(oldest)})).get(LANE, []) if count > len(oldest) else []
        now(self._index.discard_tasks([(LANE, task) for task in oldest]))
        tasks = list(dict.fromkeys([*oldest, *taken]))
        rest = [task for task in self.waiting if task not in oldest]
        first = rest[::-1] if self.is_lifo else rest
        assert [task for task in tasks if task not in oldest] == first[: len(tasks) - len(oldest)]
        self.waiting = [task for task in self.waiting if task not in tasks]
        self.placed += tasks


@SETTINGS
@given(st.booleans(), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=40))
def test_every_task_of_a_lane_is_placed_in_its_order_and_in_time(is_lifo: bool, passes: list[tuple[int, int]]) -> None:
    lane = Lane(is_lifo=is_lifo)
    for arriving, room in passes:
        lane.add(arriving)
        lane.place(room)
    assert sorted([*lane.placed, *lane.waiting]) == sorted(lane.due_by)
    for position, task in enumerate(lane.placed, 1):
        assert position <= lane.due_by[task]
    for task in lane.waiting:
        assert len(lane.placed) < lane.due_by[task]


@SETTINGS
@given(st.lists(st.integers(1, 700), max_size=40))
def test_of_every_eight_one_is_the_oldest_however_they_are_batched(counts: list[int]) -> None:
    since, oldest = 0, 0
    for position, count in enumerate(counts, 1):
        due, since = count_oldest_turns(since, count)
        assert due <= count
        oldest += due
        assert oldest == sum(counts[:position]) // OLDEST_INTERVAL
