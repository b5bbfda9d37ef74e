"""The memory of lanes is bounded, and what was forgotten is read again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlfleet.errors import InvariantBroken
from crawlfleet.model.requirement import Lane, Requirement
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.store import SqlStore
from crawlfleet.store.tasks.lanes import LaneBook

MOST = 4


class SmallStore(SqlStore):
    def __init__(self, engine: InlineEngine) -> None:
        super().__init__(engine)
        self._lanes = LaneBook(MOST)

    @property
    def known(self) -> int:
        return len(self._lanes)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SmallStore]:
    migrate_sqlite(tmp_path / "fleet.db")
    store = SmallStore(InlineEngine(tmp_path / "fleet.db"))
    yield store
    await store.close()


def _lane(number: int) -> Lane:
    return Lane.of("default", f"project {number}", 5, Requirement("echo"))


async def test_lanes_that_nothing_uses_are_forgotten(store: SmallStore) -> None:
    lanes = [_lane(number) for number in range(50)]
    for lane in lanes:
        await store.ensure_lanes([lane])
        # One of them is in use all the time.
        assert await store.lanes([lanes[0].id]) == [lanes[0]]
        assert store.known <= 2 * MOST
    for lane in reversed(lanes):
        assert await store.lanes([lane.id, lanes[0].id]) == [lane, lanes[0]]
        assert store.known <= 2 * MOST + 2
    # More at once than the memory holds are all there.
    assert await store.lanes([lane.id for lane in lanes]) == lanes


async def test_a_lane_that_does_not_exist_is_still_an_error(store: SmallStore) -> None:
    with pytest.raises(InvariantBroken, match="do not exist"):
        await store.lanes([_lane(1).id])
