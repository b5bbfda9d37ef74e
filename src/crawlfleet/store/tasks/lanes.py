"""The cache of lanes: the content of a lane never changes once it exists.

Its row may be deleted: rows of lanes that no task is in are removed (see `store.tasks.lane_removal`), while any master
may put a task into any lane at any time. A transaction that does so therefore calls `LaneBook.keep_lanes`. Nearly
always the row was confirmed recently, which means found or written in a transaction that is committed, and no query is
made: the removal waits for far longer than a confirmation is valid. Otherwise the row is held until the transaction
ends, and written again if it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from crawlfleet.errors import InvariantBroken
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.ports.clock import boot_time
from crawlfleet.ports.maintenance_store import LANE_FRESH_S
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.row_codec import Format, RowCodec

_LANES = RowCodec(
    schema.lane, Lane, formats={"requirement": Format(row_codec.encode_json, row_codec.decode_requirement)}
)
_COLUMNS = (*_LANES.columns, "task_type")
_SELECT = f"SELECT {_LANES.select} FROM lane WHERE id AMONG($1)"
# A shared lock: transactions that add tasks to one lane do not wait for each other.
HOLD_LANES = "SELECT id, unused_mark FROM lane WHERE id AMONG($1) ORDER BY id SHARE_KEYS(lane)"
CLEAR_MARKS = "UPDATE lane SET unused_mark = 0 WHERE id AMONG($1)"

LANES_MOST = 50_000


class LaneBook:
    """A cache of lanes in two generations: a lane that was not used while `most` others were loaded is forgotten, and
    read again when it is needed. One that was just loaded is kept for a whole generation, whatever else is loaded
    meanwhile."""

    def __init__(self, most: int = LANES_MOST, monotonic: Callable[[], float] = boot_time) -> None:
        self._most = most
        self._lanes: dict[LaneId, Lane] = {}
        self._older: dict[LaneId, Lane] = {}
        self._monotonic = monotonic
        self._confirmed_at: dict[LaneId, float] = {}

    def __len__(self) -> int:
        return len(self._lanes) + len(self._older)

    def __getitem__(self, lane: LaneId) -> Lane:
        cached = self._lanes.get(lane)
        return self._older[lane] if cached is None else cached

    def __contains__(self, lane: object) -> bool:
        return lane in self._lanes or lane in self._older

    async def load_lanes(self, tx: Tx, lanes: Iterable[LaneId]) -> None:
        """Load lanes that tasks are in already."""
        if unknown := await self.find_lanes(tx, lanes):
            raise InvariantBroken(f"live tasks stand in lanes that do not exist: {sorted(unknown)}")

    async def find_lanes(self, tx: Tx, lanes: Iterable[LaneId]) -> set[LaneId]:
        """Load the lanes that exist; return those that do not."""
        stale = [lane for lane in set(lanes) if lane not in self._lanes]
        if not stale:
            return set()
        older = self._older
        missing = [lane for lane in stale if lane not in older]
        rows = await tx.fetch(_SELECT, missing) if missing else []
        loaded = _LANES.from_rows(rows)
        # Lanes of the older generation that are in use move into the newer one.
        self.remember_lanes([*(older[lane] for lane in stale if lane in older), *loaded])
        return set(missing) - {lane.id for lane in loaded}

    async def keep_lanes(self, tx: Tx, lanes: Collection[LaneId]) -> None:
        """Load lanes that this transaction puts tasks into; their rows exist when it commits, and stay."""
        if doubted := self.unconfirmed_lanes(lanes, LANE_FRESH_S):
            remembered = (self._lanes.get(lane) or self._older.get(lane) for lane in doubted)
            await hold_lanes(tx, doubted, {lane.id: lane for lane in remembered if lane is not None})
        await self.load_lanes(tx, lanes)

    def remember_lanes(self, lanes: Iterable[Lane]) -> None:
        # Before the new ones are added, so that these stay however many they are.
        if len(self._lanes) >= self._most:
            self._older, self._lanes = self._lanes, {}
        self._lanes.update((lane.id, lane) for lane in lanes)

    def unconfirmed_lanes(self, lanes: Iterable[LaneId], fresh_s: float) -> list[LaneId]:
        """Select the lanes whose rows were not confirmed within the last `fresh_s` seconds."""
        before, confirmed_at = self._monotonic() - fresh_s, self._confirmed_at
        return [lane for lane in lanes if confirmed_at.get(lane, before) <= before]

    async def confirm_lanes(self, engine: Engine, lanes: Sequence[Lane]) -> None:
        """Write the rows that are missing, in a transaction of their own; they count as confirmed from its begin on."""
        by_id = {lane.id: lane for lane in lanes}
        began_at = self._monotonic()
        await engine.write(lambda tx: hold_lanes(tx, list(by_id), by_id))
        self.remember_lanes(lanes)
        # Bounded in the simplest way: a lane whose confirmation was forgotten is confirmed again.
        if len(self._confirmed_at) >= 2 * self._most:
            self._confirmed_at = {}
        self._confirmed_at.update(dict.fromkeys(by_id, began_at))


async def hold_lanes(tx: Tx, wanted: Sequence[LaneId], cached: Mapping[LaneId, Lane]) -> None:
    """Make sure that the rows exist, and count as in use, until this transaction ends."""
    marks: dict[LaneId, int] = dict(await tx.fetch(HOLD_LANES, list(wanted)))
    if marked := [lane for lane, mark in marks.items() if mark]:
        await tx.execute(CLEAR_MARKS, marked)
    # In order of id, so that two masters adding the same lanes never wait for each other crosswise (no deadlock).
    missing = sorted(set(wanted) - marks.keys())
    if unknown := [lane for lane in missing if lane not in cached]:
        raise InvariantBroken(f"tasks are put into lanes that do not exist: {unknown}")
    if missing:
        await tx.insert_new(
            schema.lane,
            _COLUMNS,
            [(*_LANES.to_row(cached[lane]), cached[lane].requirement.task_type) for lane in missing],
        )


class LaneTables:
    """The methods ensure_lanes and load_lanes of the store."""

    _engine: Engine
    _lanes: LaneBook

    async def ensure_lanes(self, lanes: Sequence[Lane]) -> None:
        # Confirmed early, at half the span: the lanes are used some time after this call.
        doubted = set(self._lanes.unconfirmed_lanes((lane.id for lane in lanes), LANE_FRESH_S / 2))
        if doubted:
            await self._lanes.confirm_lanes(self._engine, [lane for lane in lanes if lane.id in doubted])

    async def load_lanes(self, ids: Sequence[LaneId]) -> list[Lane]:
        if any(lane not in self._lanes for lane in ids):
            await self._engine.read(lambda tx: self._lanes.load_lanes(tx, ids))
        return [self._lanes[lane] for lane in ids]
