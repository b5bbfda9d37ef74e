"""Figures over a real store: sums of a window, class sizes, and the bounds of a history."""

from __future__ import annotations

import pytest

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.figures import Figures
from crawlfleet.errors import InvalidInput
from crawlfleet.model.figures import task_figures as figures
from crawlfleet.model.status import TaskStatus
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit, KitClock

MINUTE_MS = 60_000


class Reader:
    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.clock = KitClock(kit)
        configure = Configure(store=kit.store, clock=self.clock)
        self.figures = Figures(store=kit.store, clock=self.clock, configure=configure)

    async def fold(self) -> None:
        await self.kit.store.fold_counters(await self.kit.term())


@pytest.fixture
async def reader(store: SqlStore) -> Reader:
    return Reader(await Kit.open(store, store))


async def test_a_window_has_whole_minutes_and_the_current_one(reader: Reader) -> None:
    kit = reader.kit
    kit.now -= kit.now % MINUTE_MS
    for _ in range(6):
        await kit.submit(1)
        kit.later(MINUTE_MS)
    await kit.submit(1)
    await reader.fold()
    for minutes, count in ((1, 2), (3, 4), (60, 7)):
        row = await reader.figures.sum_window("*", minutes * MINUTE_MS)
        assert row[figures.SUBMITTED] == count
    sums = await reader.figures.sum_windows(["type:echo", "type:none"], 10 * MINUTE_MS)
    assert (sums["type:echo"][figures.SUBMITTED], sums["type:none"][figures.SUBMITTED]) == (7, 0)


async def test_a_window_of_days_is_summed_from_hours_or_days(reader: Reader) -> None:
    await reader.kit.submit(5)
    await reader.fold()
    reader.kit.later(2 * 86_400_000)
    for days in (3, 30):
        row = await reader.figures.sum_window("*", days * 86_400_000)
        assert row[figures.SUBMITTED] == 5


async def test_class_sizes_are_by_priority_and_retries_apart(reader: Reader) -> None:
    kit = reader.kit
    for priority, count in ((10, 1), (9, 2), (5, 4), (4, 8), (1, 16)):
        await kit.submit(count, lane=await kit.known_lane(priority=priority))
    await kit.submit(1, due_at=kit.now + 1_000)
    assert await reader.figures.class_sizes() == {"high": 1, "normal": 7, "low": 24, "retry": 0}


async def test_counts_are_by_any_part_of_a_lane(reader: Reader) -> None:
    kit = reader.kit
    await kit.submit(2)
    await kit.submit(3, lane=await kit.known_lane("books", queue="slow"))
    assert (await reader.figures.count_tasks("queue"))["slow"] == {TaskStatus.PENDING: 3}
    assert (await reader.figures.count_tasks("type"))["echo"] == {TaskStatus.PENDING: 5}
    assert sorted(await reader.figures.count_tasks("project")) == ["books", "shop"]


async def test_a_history_is_bounded(reader: Reader) -> None:
    now = reader.kit.now
    history = await reader.figures.load_history(["*"], "minute", now - 499 * MINUTE_MS, now)
    assert history.since <= now - 499 * MINUTE_MS
    for series, span, since in ((["*"], "minute", now - 501 * MINUTE_MS), (["x"], "minute", 0), ([], "minute", 0)):
        with pytest.raises(InvalidInput):
            await reader.figures.load_history(series, span, since, now)
    with pytest.raises(InvalidInput):
        await reader.figures.load_history(["*"], "week")
