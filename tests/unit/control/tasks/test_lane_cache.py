"""The lanes of submitted tasks: found again by equal words, and new until the store has their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from crawlfleet.control.tasks import lane_cache
from crawlfleet.control.tasks.lane_cache import LaneCache
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.queue import Lane
from crawlfleet.ports.maintenance_store import LANE_FRESH_S
from crawlfleet.ports.task_store import TaskStore
from crawlfleet.wire.tasks import TaskBody
from testkit.clock import FakeClock


class LaneStore:
    """Keeps the lanes of each call; a call may fail, or something may happen meanwhile."""

    def __init__(self) -> None:
        self.calls: list[list[Lane]] = []
        self.cache: LaneCache | None = None
        self.body_meanwhile: TaskBody | None = None
        self.is_down = False

    async def ensure_lanes(self, lanes: Sequence[Lane]) -> None:
        if self.is_down:
            raise StoreUnavailable("ensure_lanes")
        if self.body_meanwhile is not None and self.cache is not None:
            self.cache.find_lane(self.body_meanwhile, (), has_requirement=False)
        self.calls.append(list(lanes))


class Desk:
    def __init__(self) -> None:
        self.store, self.clock = LaneStore(), FakeClock(1_000)
        self.cache = LaneCache(store=cast("TaskStore", self.store), clock=self.clock)
        self.store.cache = self.cache

    def lane(self, body: TaskBody, *, has_requirement: bool = False) -> Lane:
        return self.cache.find_lane(body, (), has_requirement=has_requirement)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_equal_words_find_the_same_lane_and_it_is_stored_once(desk: Desk) -> None:
    lane = desk.lane(TaskBody("echo", queue="q", project_id="shop", priority=7))
    assert (lane.queue, lane.project, lane.priority, lane.requirement.task_type) == ("q", "shop", 7, "echo")
    assert desk.cache.has_new
    await desk.cache.store_new()
    assert desk.store.calls == [[lane]]
    assert desk.lane(TaskBody("echo", queue="q", project_id="shop", priority=7)) is lane
    assert not desk.cache.has_new


def test_what_placement_looks_at_makes_another_lane(desk: Desk) -> None:
    plain = desk.lane(TaskBody("echo"))
    large = desk.lane(TaskBody("echo", min_resources={"cpu": 2.0}), has_requirement=True)
    listed = desk.lane(TaskBody("echo", capabilities={"tags": ["a", "b"]}), has_requirement=True)
    sorted_words = desk.lane(TaskBody("echo", categories=["x", "y", "x"]), has_requirement=True)
    assert len({plain.id, large.id, listed.id, sorted_words.id}) == 4
    assert desk.lane(TaskBody("echo", categories=["y", "x"]), has_requirement=True).id == sorted_words.id


async def test_a_lane_stays_new_until_the_store_has_it(desk: Desk) -> None:
    lane = desk.lane(TaskBody("echo"))
    desk.store.is_down = True
    with pytest.raises(StoreUnavailable):
        await desk.cache.store_new()
    assert desk.cache.has_new
    desk.store.is_down = False
    desk.store.body_meanwhile = TaskBody("other")
    await desk.cache.store_new()
    assert desk.store.calls == [[lane]]
    assert desk.cache.has_new, "the lane that came meanwhile is not in the store yet"
    desk.store.body_meanwhile = None
    await desk.cache.store_new()
    assert [lane.requirement.task_type for lane in desk.store.calls[1]] == ["other"]
    assert not desk.cache.has_new


async def test_lanes_are_new_again_long_before_the_store_doubts_them(desk: Desk) -> None:
    desk.lane(TaskBody("echo"))
    await desk.cache.store_new()
    desk.clock.advance(LANE_FRESH_S / 3 - 0.001)
    desk.cache.expire()
    desk.lane(TaskBody("echo"))
    assert not desk.cache.has_new
    desk.clock.advance(0.001)
    desk.cache.expire()
    desk.lane(TaskBody("echo"))
    assert desk.cache.has_new


async def test_the_number_of_cached_lanes_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_cache, "_MAX_LANES", 2)
    for priority in (1, 2, 3):
        desk.lane(TaskBody("echo", priority=priority))
    await desk.cache.store_new()
    assert len(desk.store.calls[0]) == 3
    desk.lane(TaskBody("echo", priority=3))
    assert not desk.cache.has_new
    desk.lane(TaskBody("echo", priority=1))
    assert desk.cache.has_new
