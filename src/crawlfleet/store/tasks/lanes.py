"""Lanes as the store knows them, remembered: a lane never changes once it exists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crawlfleet.errors import InvariantBroken
from crawlfleet.model.requirement import Lane, LaneId
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.row_codec import Format, RowCodec

_LANES = RowCodec(schema.lane, Lane, formats={"requirement": Format(row_codec.encode, row_codec.requirement)})
_COLUMNS = (*_LANES.columns, "task_type")
_SELECT = f"SELECT {_LANES.select} FROM lane WHERE id AMONG($1)"

LANES_MOST = 50_000


class LaneBook:
    """Two generations: a lane that was not used while `most` others came is forgotten, and read again when it is
    needed. One that was loaded just now is kept for a whole generation, whatever else is loaded meanwhile."""

    def __init__(self, most: int = LANES_MOST) -> None:
        self._most = most
        self._lanes: dict[LaneId, Lane] = {}
        self._older: dict[LaneId, Lane] = {}

    def __len__(self) -> int:
        return len(self._lanes) + len(self._older)

    def __getitem__(self, lane: LaneId) -> Lane:
        known = self._lanes.get(lane)
        return self._older[lane] if known is None else known

    def __contains__(self, lane: LaneId) -> bool:
        return lane in self._lanes or lane in self._older

    async def load(self, tx: Tx, lanes: Iterable[LaneId]) -> None:
        stale = [lane for lane in set(lanes) if lane not in self._lanes]
        if not stale:
            return
        older = self._older
        missing = [lane for lane in stale if lane not in older]
        rows = await tx.fetch(_SELECT, missing) if missing else []
        found = _LANES.from_rows(rows)
        # Those of the older generation are in use: they move into the newer one.
        self.note([*(older[lane] for lane in stale if lane in older), *found])
        if unknown := set(missing) - {lane.id for lane in found}:
            raise InvariantBroken(f"live tasks stand in lanes that do not exist: {sorted(unknown)}")

    def note(self, lanes: Iterable[Lane]) -> None:
        # Before they are added, so that these stay however many they are.
        if len(self._lanes) >= self._most:
            self._older, self._lanes = self._lanes, {}
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
        rows = [(*_LANES.to_row(lane), lane.requirement.task_type) for lane in sorted(new, key=lambda lane: lane.id)]
        await self._engine.write(lambda tx: tx.insert_new(schema.lane, _COLUMNS, rows))
        self._lanes.note(new)

    async def lanes(self, ids: Sequence[LaneId]) -> list[Lane]:
        if any(lane not in self._lanes for lane in ids):
            await self._engine.read(lambda tx: self._lanes.load(tx, ids))
        return [self._lanes[lane] for lane in ids]
