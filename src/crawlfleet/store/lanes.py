"""Lanes as the store knows them, remembered: a lane never changes once it exists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crawlfleet.errors import InvariantBroken
from crawlfleet.model.requirement import Lane, LaneId
from crawlfleet.store import codec, tables
from crawlfleet.store.tx import Engine, Tx

_COLUMNS = ("id", "queue", "project", "priority", "requirement_id", "task_type", "requirement")
_SELECT = "SELECT id, queue, project, priority, requirement_id, requirement FROM lane WHERE id AMONG($1)"


class LaneBook:
    def __init__(self) -> None:
        self._lanes: dict[LaneId, Lane] = {}

    def __getitem__(self, lane: LaneId) -> Lane:
        return self._lanes[lane]

    def __contains__(self, lane: LaneId) -> bool:
        return lane in self._lanes

    async def load(self, tx: Tx, lanes: Iterable[LaneId]) -> None:
        missing = [lane for lane in set(lanes) if lane not in self._lanes]
        if not missing:
            return
        for row in await tx.fetch(_SELECT, missing):
            self._lanes[row[0]] = Lane(*(*row[:5], codec.requirement(row[5])))
        if unknown := [lane for lane in missing if lane not in self._lanes]:
            raise InvariantBroken(f"live tasks stand in lanes that do not exist: {unknown}")

    def note(self, lanes: Iterable[Lane]) -> None:
        self._lanes.update((lane.id, lane) for lane in lanes)


class LaneTables:
    """ensure_lanes and lanes of the store."""

    _engine: Engine
    _lanes: LaneBook

    async def ensure_lanes(self, lanes: Sequence[Lane]) -> None:
        new = [lane for lane in lanes if lane.id not in self._lanes]
        if not new:
            return
        # In order of id, so that two masters adding the same lanes never wait for each other crosswise.
        rows = [
            (lane.id, lane.queue, lane.project, lane.priority, lane.requirement_id, lane.requirement.task_type,
             codec.encode(lane.requirement))
            for lane in sorted(new, key=lambda lane: lane.id)
        ]  # fmt: skip
        await self._engine.write(lambda tx: tx.insert_new(tables.lane, _COLUMNS, rows))
        self._lanes.note(new)

    async def lanes(self, ids: Sequence[LaneId]) -> list[Lane]:
        if any(lane not in self._lanes for lane in ids):
            await self._engine.read(lambda tx: self._lanes.load(tx, ids))
        return [self._lanes[lane] for lane in ids]
