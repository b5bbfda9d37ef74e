"""The ready index against a naive one, and against what it is for: nothing is missed and nothing overtakes."""

import itertools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crawlfleet.broker.memory.ready import MemoryReadyIndex
from crawlfleet.ports.broker import ReadyIndex, Window

T = TypeVar("T")

WINDOW, TOTAL = 4, 9
LANES = (1, 2, 3)

lanes = st.sampled_from(LANES)
two_lanes = st.sampled_from(LANES[:2])
some_ids = st.lists(st.integers(1, 40), max_size=14)


def now(answer: Coroutine[Any, Any, T]) -> T:
    """The memory index never waits: no loop is needed to ask it."""
    try:
        answer.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("it waited")


class NaiveLane:
    def __init__(self) -> None:
        self.window: list[int] = []
        self.is_deep = False
        self.dropped: list[int] = []
        self.reach: int | None = None

    def add(self, task: int) -> None:
        if self.is_deep and not any(task <= other for other in self.window):
            self.drop(task)
        elif task not in self.window:
            self.window = sorted([*self.window, task])
            if len(self.window) > WINDOW:
                self.drop(self.window.pop())

    def drop(self, task: int) -> None:
        self.is_deep = True
        if task in self.dropped or (self.reach is not None and task > self.reach):
            return
        self.dropped = sorted([*self.dropped, task])
        if len(self.dropped) > WINDOW:
            self.dropped.pop()
            self.reach = self.dropped[-1]


class NaiveIndex:
    def __init__(self, order: Callable[[dict[int, NaiveLane]], list[int]] = list) -> None:
        self.lanes: dict[int, NaiveLane] = {}
        self.taken: set[int] = set()
        self.order = order
        """Of the lanes: the first of the fullest gives."""

    def offer(self, lane: int, tasks: list[int]) -> None:
        for task in tasks:
            self.taken.discard(task)
        for task in sorted(tasks):
            self.lanes.setdefault(lane, NaiveLane()).add(task)

    def shrink(self) -> None:
        while sum(len(lane.window) for lane in self.lanes.values()) > TOTAL:
            fullest = max((self.lanes[name] for name in self.order(self.lanes)), key=lambda lane: len(lane.window))
            fullest.drop(fullest.window.pop())

    def take(self, lane: int, count: int) -> dict[int, list[int]]:
        window = self.lanes[lane].window if lane in self.lanes else []
        taken = [window.pop(0) for _ in range(min(count, len(window)))]
        self.taken.update(taken)
        self.tidy()
        return {lane: taken} if taken else {}

    def refill(self, lane: int, heads: list[int], is_deep: bool) -> None:
        old = self.lanes.setdefault(lane, NaiveLane())
        known = sorted({*old.window, *old.dropped, *(task for task in heads if task not in self.taken)})
        if is_deep and heads:
            known = [task for task in known if task <= max(heads)]
        if old.reach is not None:
            known = [task for task in known if task <= old.reach]
        new = NaiveLane()
        new.window = known[:WINDOW]
        new.is_deep = is_deep or old.reach is not None or len(known) > WINDOW
        self.lanes[lane] = new
        self.tidy()

    def discard(self, lane: int, task: int) -> None:
        if lane in self.lanes:
            self.lanes[lane].window = [other for other in self.lanes[lane].window if other != task]
            self.lanes[lane].dropped = [other for other in self.lanes[lane].dropped if other != task]
        self.tidy()

    def tidy(self) -> None:
        self.lanes = {name: lane for name, lane in self.lanes.items() if lane.window or lane.is_deep}

    def windows(self) -> list[Window]:
        return [
            Window(name, lane.window[0] if lane.window else 0, len(lane.window), lane.is_deep)
            for name, lane in self.lanes.items()
        ]


class LikeTheNaiveOne(RuleBasedStateMachine):
    index: ReadyIndex

    def __init__(self) -> None:
        super().__init__()
        self.index = MemoryReadyIndex(WINDOW, TOTAL, time=lambda: 0.0)
        self.naive = NaiveIndex()
        self.followed: dict[int, Window] = {}

    def now(self, answer: Coroutine[Any, Any, T]) -> T:
        return now(answer)

    @rule(ready=st.dictionaries(lanes, some_ids))
    def offer(self, ready: dict[int, list[int]]) -> None:
        self.now(self.index.offer_tasks(ready))
        for lane, tasks in ready.items():
            self.naive.offer(lane, tasks)
        self.naive.shrink()

    @rule(lane=lanes, count=st.integers(0, 6))
    def take(self, lane: int, count: int) -> None:
        assert self.now(self.index.pop_tasks({lane: count})) == self.naive.take(lane, count)

    @rule(lane=lanes, heads=some_ids, is_deep=st.booleans())
    def refill(self, lane: int, heads: list[int], is_deep: bool) -> None:
        self.now(self.index.refill_window(lane, sorted(set(heads)), is_deep))
        self.naive.refill(lane, heads, is_deep)
        self.naive.shrink()

    @rule(lane=lanes, task=st.integers(1, 40))
    def discard(self, lane: int, task: int) -> None:
        self.now(self.index.discard_tasks([(lane, task)]))
        self.naive.discard(lane, task)

    @rule(dropped=st.lists(lanes, max_size=2))
    def drop(self, dropped: list[int]) -> None:
        self.now(self.index.drop_windows(dropped))
        for lane in dropped:
            self.naive.lanes.pop(lane, None)

    @invariant()
    def windows_are_the_same(self) -> None:
        assert self.now(self.index.list_windows()) == self.naive.windows()

    @invariant()
    def who_follows_the_changes_sees_all_windows(self) -> None:
        for window in self.now(self.index.pop_changed_windows()):
            self.followed[window.lane] = window
        seen = [window for window in self.followed.values() if window.size or window.is_deep]
        assert sorted(seen) == sorted(self.now(self.index.list_windows()))


class NothingIsMissed(RuleBasedStateMachine):
    """A store, masters that offer late and in any order, and a leader that reads, places and gives back.

    Windows are tiny, and the leader's reading and its refill come with something in between: the races are what counts.
    """

    WINDOW, TOTAL = 2, 3
    LANES = (1, 2)

    index: ReadyIndex

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.index = self.memory = MemoryReadyIndex(self.WINDOW, self.TOTAL, time=lambda: self.seconds)
        self.numbers = itertools.count(1)
        self.pending: dict[int, set[int]] = {lane: set() for lane in self.LANES}
        self.offers: list[tuple[int, int]] = []
        self.placing: set[tuple[int, int]] = set()
        self.gone: set[tuple[int, int]] = set()

    @rule(lane=two_lanes, count=st.integers(1, 5), data=st.data())
    def submit(self, lane: int, count: int, data: st.DataObject) -> None:
        self.submit_some(lane, count, data)

    @precondition(lambda self: self.offers)
    @rule(data=st.data(), count=st.integers(1, 5))
    def hear(self, data: st.DataObject, count: int) -> None:
        self.hear_some(data, count)

    @rule(lane=two_lanes, count=st.integers(1, 3))
    def take(self, lane: int, count: int) -> None:
        self.take_some(lane, count)

    @precondition(lambda self: self.placing)
    @rule(is_assigned=st.booleans())
    def place(self, is_assigned: bool) -> None:
        self.place_all(is_assigned)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        lane, task = data.draw(st.sampled_from(sorted(self.gone)))
        self.gone.remove((lane, task))
        self.commit(lane, task)

    @precondition(lambda self: any(self.pending.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        known = [(lane, task) for lane in self.LANES for task in sorted(self.pending[lane])]
        lane, task = data.draw(st.sampled_from(known))
        self.pending[lane].remove(task)
        self.now(self.index.discard_tasks([(lane, task)]))

    @rule(
        lane=two_lanes,
        data=st.data(),
        between=st.lists(st.sampled_from(["submit", "hear", "take", "place"]), max_size=4),
    )
    def refill(self, lane: int, data: st.DataObject, between: list[str]) -> None:
        heads = sorted(self.pending[lane])
        for meanwhile in between:
            match meanwhile:
                case "submit":
                    self.submit_some(lane, data.draw(st.integers(1, 5)), data)
                case "hear":
                    self.hear_some(data, data.draw(st.integers(1, 5)))
                case "take":
                    self.take_some(lane, data.draw(st.integers(1, 3)))
                case "place":
                    self.place_all(data.draw(st.booleans()))
        self.now(self.index.refill_window(lane, heads[: self.WINDOW], len(heads) > self.WINDOW))

    @rule()
    def time_goes_by(self) -> None:
        self.seconds += 3.0

    @invariant()
    def windows_are_bounded_and_in_order(self) -> None:
        windows = self.now(self.index.list_windows())
        assert sum(window.size for window in windows) <= self.TOTAL
        for window in windows:
            shown = self.shown(window.lane)
            assert shown == sorted(set(shown))
            assert len(shown) == window.size <= self.WINDOW

    @invariant()
    def what_is_ready_is_shown_unless_the_lane_is_deep(self) -> None:
        deep = {window.lane for window in self.now(self.index.list_windows()) if window.is_deep}
        for lane in self.LANES:
            assert lane in deep or self.available(lane) <= set(self.shown(lane))

    @invariant()
    def nothing_is_shown_before_what_is_older(self) -> None:
        for lane in self.LANES:
            shown = self.shown(lane)
            assert not [task for task in self.available(lane) - set(shown) if shown and task < shown[-1]]

    def now(self, answer: Coroutine[Any, Any, T]) -> T:
        return now(answer)

    def submit_some(self, lane: int, count: int, data: st.DataObject) -> None:
        for task in data.draw(st.permutations([next(self.numbers) for _ in range(count)])):
            self.commit(lane, task)

    def hear_some(self, data: st.DataObject, count: int) -> None:
        ready: dict[int, list[int]] = {}
        for lane, task in data.draw(st.permutations(self.offers))[:count]:
            self.offers.remove((lane, task))
            ready.setdefault(lane, []).append(task)
        self.now(self.index.offer_tasks(ready))

    def take_some(self, lane: int, count: int) -> None:
        taken = self.now(self.index.pop_tasks({lane: count}))
        self.placing.update((lane, task) for task in taken.get(lane, ()))

    def place_all(self, is_assigned: bool) -> None:
        for lane, task in sorted(self.placing):
            if task not in self.pending[lane]:
                continue  # refused by the store: somebody else was faster
            if is_assigned:
                self.pending[lane].remove(task)
                self.gone.add((lane, task))
            else:
                self.offers.append((lane, task))
        self.placing.clear()

    def commit(self, lane: int, task: int) -> None:
        self.pending[lane].add(task)
        self.offers.append((lane, task))

    def available(self, lane: int) -> set[int]:
        """Pending, offered, and not in the leader's hands."""
        on_the_way = {*self.offers, *self.placing}
        return {task for task in self.pending[lane] if (lane, task) not in on_the_way}

    def shown(self, lane: int) -> list[int]:
        inside = self.memory._lanes.get(lane)
        return list(inside.window) if inside else []


TestLikeTheNaiveOne = LikeTheNaiveOne.TestCase
TestLikeTheNaiveOne.settings = settings(max_examples=150, stateful_step_count=40)
TestNothingIsMissed = NothingIsMissed.TestCase
TestNothingIsMissed.settings = settings(max_examples=200, stateful_step_count=40)
