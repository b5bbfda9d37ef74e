"""The memory of lanes is bounded, and what was forgotten is read again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlfleet.errors import InvariantBroken
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.ports.maintenance_store import LANE_FRESH_S
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.store import SqlStore
from crawlfleet.store.tasks.lanes import LaneBook
from testkit.clock import FakeClock

MOST = 4


class SmallStore(SqlStore):
    def __init__(self, engine: InlineEngine) -> None:
        super().__init__(engine)
        self.clock = FakeClock()
        self._lanes = LaneBook(MOST, self.clock.monotonic)

    @property
    def known(self) -> int:
        return len(self._lanes)

    def unconfirmed(self, *lanes: Lane) -> list[int]:
        """What a transaction that adds tasks would have to look at."""
        return self._lanes.unconfirmed_lanes([lane.id for lane in lanes], LANE_FRESH_S)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SmallStore]:
    migrate_sqlite(tmp_path / "fleet.db")
    store = SmallStore(InlineEngine(tmp_path / "fleet.db"))
    yield store
    await store.close()


def _lane(number: int) -> Lane:
    return Lane.with_id("default", f"project {number}", 5, Requirement("echo"))


async def test_lanes_that_nothing_uses_are_forgotten(store: SmallStore) -> None:
    lanes = [_lane(number) for number in range(50)]
    for lane in lanes:
        await store.ensure_lanes([lane])
        # One of them is in use all the time.
        assert await store.load_lanes([lanes[0].id]) == [lanes[0]]
        assert store.known <= 2 * MOST
    for lane in reversed(lanes):
        assert await store.load_lanes([lane.id, lanes[0].id]) == [lane, lanes[0]]
        assert store.known <= 2 * MOST + 2
    # More at once than the memory holds are all there.
    assert await store.load_lanes([lane.id for lane in lanes]) == lanes


async def test_a_lane_that_does_not_exist_is_still_an_error(store: SmallStore) -> None:
    with pytest.raises(InvariantBroken, match="do not exist"):
        await store.load_lanes([_lane(1).id])


async def test_a_lane_is_confirmed_for_a_while_from_when_it_was_ensured(store: SmallStore) -> None:
    first, second = _lane(1), _lane(2)
    await store.ensure_lanes([first])
    assert store.unconfirmed(first, second) == [second.id]
    store.clock.advance(LANE_FRESH_S - 1)
    assert store.unconfirmed(first) == []
    store.clock.advance(1)
    assert store.unconfirmed(first) == [first.id]


async def test_a_lane_that_was_only_read_is_not_confirmed(store: SmallStore) -> None:
    """What a transaction reads may be what it wrote itself, and come to nothing."""
    await store.ensure_lanes([_lane(1)])
    store.clock.advance(LANE_FRESH_S)
    assert await store.load_lanes([_lane(1).id]) == [_lane(1)]
    assert store.unconfirmed(_lane(1)) == [_lane(1).id]


async def test_a_lane_is_ensured_again_long_before_it_has_to_be(store: SmallStore) -> None:
    lane = _lane(1)
    for _ in range(5):
        await store.ensure_lanes([lane])
        store.clock.advance(LANE_FRESH_S / 2)
        assert store.unconfirmed(lane) == []


async def test_the_wall_clock_confirms_nothing(store: SmallStore) -> None:
    await store.ensure_lanes([_lane(1)])
    store.clock.jump(-30 * 86_400_000)
    assert store.unconfirmed(_lane(1)) == []
    store.clock.advance(LANE_FRESH_S)
    assert store.unconfirmed(_lane(1)) == [_lane(1).id]


async def test_what_is_confirmed_is_bounded_too(store: SmallStore) -> None:
    lanes = [_lane(number) for number in range(50)]
    for at, lane in enumerate(lanes):
        await store.ensure_lanes([lane])
        assert lane.id not in store.unconfirmed(*lanes)
        assert len(lanes[: at + 1]) - len(store.unconfirmed(*lanes[: at + 1])) <= 2 * MOST
