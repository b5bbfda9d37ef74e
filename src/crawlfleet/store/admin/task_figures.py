"""Task figures: the fold of deltas into counters and series, and the reads of series.

Only the leader folds: it deletes deltas and adds them up in one transaction. A row that it locks first keeps two folds
of one term apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from crawlfleet.model.figures.task_figures import (
    ALL,
    CLUSTER,
    GAUGE_KIND,
    KEEP_MS,
    MINUTE_S,
    NODE,
    OTHER,
    PRIORITY,
    PROJECT,
    QUEUE,
    SPANS,
    TYPE,
    FigurePoint,
    SeriesTotal,
    add_gauges,
    add_row,
    empty_row,
    full_row,
    gauge_sample,
    series_name,
    sum_rows,
    trim_row,
)
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.queue import LaneId
from crawlfleet.store import schema
from crawlfleet.store.admin.figure_series import SeriesChoice, choose_series
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.ready_tasks import OLDEST_READY
from crawlfleet.store.tasks.transaction_log import decode_delta

_FOLD_KEY = "figure_fold"
HOLD_FOLD = f"SELECT key FROM installation WHERE key = '{_FOLD_KEY}' LOCK_ROWS(installation)"
TAKE_DELTAS = (
    "DELETE FROM figure_delta WHERE id IN (SELECT id FROM figure_delta ORDER BY id LIMIT $1) RETURNING at, body"
)
STORED_COUNTERS = "SELECT project, status, n FROM counter WHERE project AMONG($1)"
STORED_LANE_COUNTERS = "SELECT lane, status, n FROM lane_counter WHERE lane AMONG($1)"
EMPTY_COUNTERS = "DELETE FROM counter WHERE project AMONG($1) AND n = 0"
EMPTY_LANE_COUNTERS = "DELETE FROM lane_counter WHERE lane AMONG($1) AND n = 0"
NODE_DESCRIPTIONS = "SELECT id, description FROM node WHERE id AMONG($1)"
SERIES_CHANGES = "SELECT series, changed_at FROM figure_total"
STORED_TOTALS = "SELECT series, since_at, body FROM figure_total WHERE series AMONG($1)"
DROP_TOTALS = "DELETE FROM figure_total WHERE series AMONG($1)"
STORED_SPAN = "SELECT series, body FROM figure WHERE series AMONG($1) AND span_s = $2 AND at = $3"
TOTALS = "SELECT series, since_at, body FROM figure_total"
TOTALS_OF_KIND = f"{TOTALS} WHERE series >= $1 AND series < $2"
HISTORY = (
    "SELECT at, body FROM figure WHERE series = $1 AND span_s = $2 AND at >= $3 AND at < $4 ORDER BY at DESC LIMIT $5"
)
# Each step finds the next name in the index: reading all rows to find the few names would take far longer.
SERIES_NAMES = (
    "WITH RECURSIVE names(series) AS (SELECT MIN(series) FROM figure UNION ALL "
    "SELECT (SELECT MIN(f.series) FROM figure f WHERE f.series > names.series) FROM names "
    "WHERE names.series IS NOT NULL) SELECT series FROM names WHERE series IS NOT NULL"
)
OLD_POINTS = "DELETE FROM figure WHERE series AMONG($1) AND span_s = $2 AND at < $3"
_NAMES_PER_DROP = 50
_GAUGES = series_name(GAUGE_KIND, ALL)
_TOTAL_COLUMNS = tuple(column.name for column in schema.figure_total.columns)
_FIGURE_COLUMNS = tuple(column.name for column in schema.figure.columns)
encode_row = msgspec.msgpack.Encoder().encode
decode_row = msgspec.msgpack.Decoder(list[int]).decode


class _Description(msgspec.Struct):
    """The one field of a node's description that matters here."""

    cluster: str = DEFAULT_CLUSTER


_decode_description = msgspec.json.Decoder(_Description).decode

_Sums = dict[str, list[int]]
"""Sums of task figures by series."""


class _Deltas(NamedTuple):
    """Deltas, added up."""

    moves: Mapping[tuple[LaneId, int], int]
    minutes: Mapping[Instant, Mapping[tuple[LaneId, NodeId], list[int]]]
    """Rows by lane and node, for each minute by its begin."""

    @property
    def lanes(self) -> set[LaneId]:
        return {lane for lane, _ in self.moves} | {lane for minute in self.minutes.values() for lane, _ in minute}

    @property
    def nodes(self) -> set[NodeId]:
        return {node for minute in self.minutes.values() for _, node in minute if node}


class TaskFigureTables:
    _engine: QueryEngine
    _lanes: LaneBook

    async def fold_counters(self, term: int, limit: int = 1_000) -> int:
        async def fold_deltas(tx: Tx) -> int:
            await tx.insert_new(schema.installation, ("key", "value"), [(_FOLD_KEY, "")])
            await tx.fetch(HOLD_FOLD)
            rows = await tx.fetch(TAKE_DELTAS, limit)
            if rows:
                await _fold_deltas(tx, self._lanes, [(written_at, bytes(body)) for written_at, body in rows])
            return len(rows)

        return await self._engine.write(fold_deltas, term)

    async def figure_history(
        self, series: Sequence[str], span_s: int, since: Instant, until: Instant, limit: int
    ) -> dict[str, list[FigurePoint]]:
        async def read_points(tx: Tx) -> dict[str, list[FigurePoint]]:
            points = {}
            for name in dict.fromkeys(series):
                rows = await tx.fetch(HISTORY, name, span_s, since, until, limit)
                points[name] = [
                    FigurePoint(starts_at, full_row(decode_row(bytes(body)))) for starts_at, body in reversed(rows)
                ]
            return points

        return await self._engine.browse_rows(read_points)

    async def put_gauges(self, term: int, sampled_at: Instant, values: Sequence[int]) -> None:
        async def add_sample(tx: Tx) -> None:
            for span_s in SPANS.values():
                starts_at, row = sampled_at - sampled_at % (span_s * 1000), gauge_sample(values)
                for _, body in await tx.fetch(STORED_SPAN, [_GAUGES], span_s, starts_at):
                    row = add_gauges(decode_row(bytes(body)), row)
                await tx.put_rows(schema.figure, _FIGURE_COLUMNS, [(_GAUGES, span_s, starts_at, encode_row(row))])

        await self._engine.write(add_sample, term)

    async def gauge_history(self, span_s: int, since: Instant, until: Instant, limit: int) -> list[FigurePoint]:
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(HISTORY, _GAUGES, span_s, since, until, limit))
        return [FigurePoint(starts_at, decode_row(bytes(body))) for starts_at, body in reversed(rows)]

    async def oldest_ready(self) -> Instant | None:
        rows = await self._engine.read(lambda tx: tx.fetch(OLDEST_READY))
        return None if rows[0][0] is None else int(rows[0][0])

    async def figure_totals(self, kind: str | None = None) -> dict[str, SeriesTotal]:
        def read_totals(tx: Tx) -> Awaitable[Sequence[Row]]:
            if kind is None:
                return tx.fetch(TOTALS)
            first = kind if kind == ALL else series_name(kind, "")
            return tx.fetch(TOTALS_OF_KIND, first, first[:-1] + chr(ord(first[-1]) + 1))

        rows = await self._engine.browse_rows(read_totals)
        return {series: SeriesTotal(since, full_row(decode_row(bytes(body)))) for series, since, body in rows}

    async def drop_task_figures(self, term: int, now: Instant, limit: int = 1_000) -> int:
        names = await self._engine.write(_series_names, term)
        gone, ends = 0, {span_s: now - keep_ms for span_s, keep_ms in KEEP_MS.items()}
        for start in range(0, len(names), _NAMES_PER_DROP):
            if gone >= limit:
                break
            some = names[start : start + _NAMES_PER_DROP]

            async def drop_points(tx: Tx, some: list[str] = some) -> int:
                return sum([await tx.execute(OLD_POINTS, some, span_s, end) for span_s, end in ends.items()])

            gone += await self._engine.write(drop_points, term)
        return gone


async def _series_names(tx: Tx) -> list[str]:
    return [row[0] for row in await tx.fetch(SERIES_NAMES)]


async def _fold_deltas(tx: Tx, lanes: LaneBook, rows: Sequence[tuple[Instant, bytes]]) -> None:
    deltas = _sum_deltas(rows)
    # A delta whose lane is gone would be a bug elsewhere; it is still counted, and must not stop all that follow.
    await lanes.find_lanes(tx, deltas.lanes)
    await _fold_counters(tx, lanes, deltas.moves)
    clusters = await _node_clusters(tx, deltas.nodes)
    minutes = {starts_at: _sum_series(lanes, clusters, minute) for starts_at, minute in deltas.minutes.items()}
    if not minutes:
        return
    changed_at = max(written_at for written_at, _ in rows)
    changes: dict[str, Instant] = dict(await tx.fetch(SERIES_CHANGES))
    choice = choose_series(changes, {series for sums in minutes.values() for series in sums}, changed_at)
    minutes = {starts_at: _apply_choice(sums, choice) for starts_at, sums in minutes.items()}
    await _fold_totals(tx, minutes, choice, changed_at)
    for span_s in SPANS.values():
        spans: dict[Instant, _Sums] = defaultdict(lambda: defaultdict(empty_row))
        for minute_at, sums in minutes.items():
            span_sums = spans[minute_at - minute_at % (span_s * 1000)]
            for series, row in sums.items():
                add_row(span_sums[series], row)
        for starts_at, sums in sorted(spans.items()):
            await _fold_span(tx, span_s, starts_at, sums)


async def _node_clusters(tx: Tx, nodes: set[NodeId]) -> dict[NodeId, str]:
    rows = await tx.fetch(NODE_DESCRIPTIONS, sorted(nodes)) if nodes else []
    return {node: _decode_description(bytes(body)).cluster for node, body in rows}


def _sum_deltas(rows: Sequence[tuple[Instant, bytes]]) -> _Deltas:
    moves: Counter[tuple[LaneId, int]] = Counter()
    minutes: dict[Instant, dict[tuple[LaneId, NodeId], list[int]]] = defaultdict(lambda: defaultdict(empty_row))
    for written_at, body in rows:
        moved, counted = decode_delta(body)
        for lane, status, count in moved:
            moves[lane, status] += count
        if counted:
            minute = minutes[written_at - written_at % (MINUTE_S * 1000)]
            for lane, node, row in counted:
                add_row(minute[lane, node], row)
    return _Deltas(moves, minutes)


async def _fold_counters(tx: Tx, lanes: LaneBook, moves: Mapping[tuple[LaneId, int], int]) -> None:
    by_lane: Counter[tuple[LaneId, int]] = Counter({key: count for key, count in moves.items() if count})
    if not by_lane:
        return
    by_project: Counter[tuple[str, int]] = Counter()
    for (lane, status), count in by_lane.items():
        if lane in lanes:
            by_project[lanes[lane].project, status] += count
    changed_lanes = sorted({lane for lane, _ in by_lane})
    for lane, status, count in await tx.fetch(STORED_LANE_COUNTERS, changed_lanes):
        if (lane, status) in by_lane:
            by_lane[lane, status] += count
    await tx.put_rows(schema.lane_counter, ("lane", "status", "n"), [(*key, n) for key, n in sorted(by_lane.items())])
    await tx.execute(EMPTY_LANE_COUNTERS, changed_lanes)
    by_project = Counter({key: count for key, count in by_project.items() if count})
    changed_projects = sorted({project for project, _ in by_project})
    for project, status, count in await tx.fetch(STORED_COUNTERS, changed_projects):
        if (project, status) in by_project:
            by_project[project, status] += count
    await tx.put_rows(schema.counter, ("project", "status", "n"), [(*key, n) for key, n in sorted(by_project.items())])
    await tx.execute(EMPTY_COUNTERS, changed_projects)


def _sum_series(
    lanes: LaneBook, clusters: Mapping[NodeId, str], minute: Mapping[tuple[LaneId, NodeId], list[int]]
) -> _Sums:
    """Sum a minute by series. Rows of one lane, and of one node, are added up first: there are far fewer of them."""
    by_lane: dict[LaneId, list[int]] = defaultdict(empty_row)
    by_node: dict[NodeId, list[int]] = defaultdict(empty_row)
    for (lane, node), row in minute.items():
        add_row(by_lane[lane], row)
        if node:
            add_row(by_node[node], row)
    sums: _Sums = defaultdict(empty_row)
    for lane_id, row in by_lane.items():
        add_row(sums[ALL], row)
        for kind, name in _lane_names(lanes, lane_id):
            add_row(sums[series_name(kind, name)], row)
    for node, row in by_node.items():
        add_row(sums[series_name(NODE, node_text(node))], row)
        add_row(sums[series_name(CLUSTER, clusters.get(node, OTHER))], row)
    return sums


def _lane_names(lanes: LaneBook, lane_id: LaneId) -> list[tuple[str, str]]:
    if lane_id not in lanes:
        return [(kind, OTHER) for kind in (TYPE, PROJECT, QUEUE, PRIORITY)]
    lane = lanes[lane_id]
    return [
        (TYPE, lane.requirement.task_type),
        (PROJECT, lane.project),
        (QUEUE, lane.queue),
        (PRIORITY, str(lane.priority)),
    ]


def _apply_choice(sums: _Sums, choice: SeriesChoice) -> _Sums:
    chosen: _Sums = defaultdict(empty_row)
    for series, row in sums.items():
        add_row(chosen[choice.kept_as(series)], row)
    return chosen


async def _fold_totals(tx: Tx, minutes: Mapping[Instant, _Sums], choice: SeriesChoice, changed_at: Instant) -> None:
    totals: _Sums = defaultdict(empty_row)
    for sums in minutes.values():
        for series, row in sums.items():
            add_row(totals[series], row)
    since = dict.fromkeys(totals, changed_at)
    if choice.evicted:
        # What was counted under a name that gives up its place counts as one of the others from now on.
        for series, _, body in await tx.fetch(STORED_TOTALS, sorted(choice.evicted)):
            add_row(totals[choice.other_series(series)], decode_row(bytes(body)))
        await tx.execute(DROP_TOTALS, sorted(choice.evicted))
        since |= {series: since.get(series, changed_at) for series in totals}
    for series, since_at, body in await tx.fetch(STORED_TOTALS, sorted(totals)):
        totals[series] = sum_rows([totals[series], decode_row(bytes(body))])
        since[series] = since_at
    rows = [(series, since[series], changed_at, encode_row(trim_row(row))) for series, row in sorted(totals.items())]
    await tx.put_rows(schema.figure_total, _TOTAL_COLUMNS, rows)


async def _fold_span(tx: Tx, span_s: int, starts_at: Instant, sums: _Sums) -> None:
    for series, body in await tx.fetch(STORED_SPAN, sorted(sums), span_s, starts_at):
        add_row(sums[series], decode_row(bytes(body)))
    rows = [(series, span_s, starts_at, encode_row(trim_row(row))) for series, row in sorted(sums.items())]
    await tx.put_rows(schema.figure, _FIGURE_COLUMNS, rows)
