"""Counters of tasks: folded ones, with the figure deltas that are not folded yet.

Both are read in one statement, and so in one snapshot: a delta is counted in one of the two places at any moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.figure_store import LaneTotals
from crawlfleet.store import schema, task_rows
from crawlfleet.store.engine.transaction import Engine, Row, Tx
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.transaction_log import correction_delta, decode_delta

_DELTAS = " UNION ALL SELECT NULL, NULL, NULL, body FROM figure_delta"
TOTALS = f"SELECT 0, status, SUM(n), NULL FROM lane_counter GROUP BY status{_DELTAS}"
PROJECT_TOTALS = f"SELECT project, status, n, NULL FROM counter WHERE project AMONG($1){_DELTAS}"
ALL_PROJECT_TOTALS = f"SELECT project, status, n, NULL FROM counter{_DELTAS}"
LANE_TOTALS = f"SELECT lane, status, n, NULL FROM lane_counter{_DELTAS}"
_COUNTED = (
    "SELECT status, COUNT(*) FROM (SELECT id, status FROM live UNION ALL SELECT id, status FROM done) AS s "
    "{where} GROUP BY status"
)
_LANE_ROWS = (
    "SELECT lane, status, COUNT(*) FROM (SELECT lane, status FROM live UNION ALL SELECT lane, status FROM done) AS s "
    "GROUP BY lane, status"
)


# One statement, and so one snapshot. The deltas stand first, because a database takes the types of columns from there.
_DRIFT = (
    "SELECT 0, NULL, NULL, NULL, body FROM figure_delta UNION ALL "
    "SELECT 0, lane, status, n, NULL FROM lane_counter UNION ALL "
    "SELECT 1, lane, status, COUNT(*), NULL FROM "
    "(SELECT lane, status FROM live UNION ALL SELECT lane, status FROM done) AS s GROUP BY lane, status"
)


async def project_totals(tx: Tx, lanes: LaneBook, names: Sequence[str] | None = None) -> Counter[tuple[str, int]]:
    """Return how many tasks of each project have each status; exact at any time."""
    rows = await (tx.fetch(ALL_PROJECT_TOTALS) if names is None else tx.fetch(PROJECT_TOTALS, list(names)))
    folded, moves = _split_rows(rows)
    totals: Counter[tuple[str, int]] = Counter()
    for project, status, count in folded:
        totals[project, status] += count
    await lanes.find_lanes(tx, {lane for lane, _ in moves})
    wanted = None if names is None else set(names)
    for (lane, status), count in moves.items():
        if lane in lanes and (wanted is None or lanes[lane].project in wanted):
            totals[lanes[lane].project, status] += count
    return totals


class CounterTables:
    _engine: Engine
    _lanes: LaneBook

    async def task_totals(self, project: str | None = None) -> dict[TaskStatus, int]:
        if project is not None:
            totals = await self._engine.read(lambda tx: project_totals(tx, self._lanes, [project]))
            return {task_rows.STATUSES[status]: count for (_, status), count in sorted(totals.items()) if count}
        sums: Counter[int] = Counter()
        folded, moves = _split_rows(await self._engine.read(lambda tx: tx.fetch(TOTALS)))
        for _, status, count in folded:
            sums[status] += int(count)
        for (_, status), count in moves.items():
            sums[status] += count
        return {task_rows.STATUSES[status]: count for status, count in sorted(sums.items()) if count}

    async def lane_totals(self) -> LaneTotals:
        folded, moves = _split_rows(await self._engine.read(lambda tx: tx.fetch(LANE_TOTALS)))
        totals: Counter[tuple[LaneId, int]] = Counter(moves)
        for lane, status, count in folded:
            totals[lane, status] += count
        return _by_lane((lane, status, count) for (lane, status), count in totals.items())

    async def count_rows(self, project: str | None = None) -> dict[TaskStatus, int]:
        where = "" if project is None else "WHERE EXISTS (SELECT 1 FROM task t WHERE t.id = s.id AND t.project = $1)"
        args = () if project is None else (project,)
        rows = await self._engine.read(lambda tx: tx.fetch(_COUNTED.format(where=where), *args))
        return {task_rows.STATUSES[status]: int(n) for status, n in rows if n}

    async def count_lane_rows(self) -> LaneTotals:
        return _by_lane(await self._engine.read(lambda tx: tx.fetch(_LANE_ROWS)))

    async def find_drift(self) -> LaneTotals:
        rows = await self._engine.read(lambda tx: tx.fetch(_DRIFT))
        counted, moves = _split_rows([row[1:] for row in rows if not row[0]])
        drift: Counter[tuple[LaneId, int]] = Counter()
        for _, lane, status, count, _ in (row for row in rows if row[0]):
            drift[lane, status] += count
        drift.subtract(moves)
        for lane, status, count in counted:
            drift[lane, status] -= count
        return _by_lane((lane, status, count) for (lane, status), count in sorted(drift.items()))

    async def correct_counters(self, drift: LaneTotals, now: Instant) -> None:
        moves = [(lane, int(status), count) for lane, counts in drift.items() for status, count in counts.items()]
        if moves:
            delta = correction_delta(moves, now)
            await self._engine.write(lambda tx: tx.insert(schema.figure_delta, ("at", "body"), [delta]))


def _by_lane(counts: Iterable[Row]) -> LaneTotals:
    totals: dict[LaneId, dict[TaskStatus, int]] = {}
    for lane, status, count in counts:
        if count:
            totals.setdefault(lane, {})[task_rows.STATUSES[status]] = int(count)
    return totals


def _split_rows(rows: Sequence[Row]) -> tuple[list[Row], Counter[tuple[LaneId, int]]]:
    """Split rows into those of counters and the sum of the moves in deltas."""
    moves: Counter[tuple[LaneId, int]] = Counter()
    folded = []
    for *counted, body in rows:
        if body is None:
            folded.append(tuple(counted))
        else:
            for lane, status, count in decode_delta(bytes(body))[0]:
                moves[lane, status] += count
    return folded, moves
