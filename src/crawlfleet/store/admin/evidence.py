"""Evidence: one row per node and subject, and the position up to which the event log was folded into these rows.

The position of the last fold is stored in the database and moves in the transaction that changes the rows: a master
that folds the same events a second time, for instance after a write of unknown outcome, finds that it has moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.evidence import EvidenceRow, Record, Subject
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import ErrorClass, ExecutionStatus
from crawlfleet.ports.event_store import EndedRun, EndedRuns, TaskContent
from crawlfleet.store import row_codec, schema
from crawlfleet.store.admin.events import last_number
from crawlfleet.store.engine.transaction import Engine, Row, Tx
from crawlfleet.store.tasks.lanes import LaneBook

_POSITION_KEY = "evidence_after"
FOLDED_TO = f"SELECT value FROM installation WHERE key = '{_POSITION_KEY}'"
MOVE = f"UPDATE installation SET value = $2 WHERE key = '{_POSITION_KEY}' AND value = $1"
NEXT_EVENTS = "SELECT first, count, at, body FROM event_log WHERE first > $1 ORDER BY first LIMIT $2"
ERRORS = "SELECT id, error FROM execution WHERE id AMONG($1)"
CONTENTS = (
    "SELECT t.id, COALESCE(l.lane, d.lane), t.spec FROM task t LEFT JOIN live l ON l.id = t.id "
    "LEFT JOIN done d ON d.id = t.id WHERE t.id AMONG($1) AND t.spec IS NOT NULL"
)
PARAMETERS = "SELECT id, parameters FROM task WHERE id AMONG($1)"


class _StoredEvidence(NamedTuple):
    """A row of `evidence`."""

    id: int
    node: NodeId
    kind: str
    subject: str
    address: str
    ok: float
    failed: float
    blocked: float
    at: Instant
    last_blocked_at: Instant | None


_LIST = ", ".join(_StoredEvidence._fields)
ROWS_AMONG = f"SELECT {_LIST} FROM evidence WHERE id AMONG($1) ORDER BY id LOCK_ROWS(evidence)"
ROWS_ABOUT = f"SELECT {_LIST} FROM evidence WHERE subject AMONG($1)"
OLD_EVIDENCE = (
    "DELETE FROM evidence WHERE at < $1 AND id IN (SELECT id FROM evidence WHERE at < $1 ORDER BY at LIMIT $2)"
)
FAILED_STATUSES = (ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT)
LAST_RUNS = (
    "SELECT e.task, e.node, e.status FROM execution e WHERE e.task AMONG($1) "
    "AND e.id = (SELECT MAX(id) FROM execution x WHERE x.task = e.task)"
)
_FAILED_KINDS = frozenset({Kind.TASK_RETRYING, Kind.TASK_FAILED, Kind.TASK_TIMEOUT})


class EvidenceTables:
    _engine: Engine
    _lanes: LaneBook

    async def want_evidence(self) -> None:
        async def insert_position(tx: Tx) -> None:
            await tx.insert_new(schema.installation, ("key", "value"), [(_POSITION_KEY, str(await last_number(tx)))])

        if not await self._engine.read_by_key(lambda tx: tx.fetch(FOLDED_TO)):
            await self._engine.write(insert_position)

    async def ended_runs(self, rows: int) -> EndedRuns | None:
        position = await self._engine.read_by_key(lambda tx: tx.fetch(FOLDED_TO))
        if not position:
            return None
        after = int(position[0][0])
        event_rows = await self._engine.read(lambda tx: tx.fetch(NEXT_EVENTS, after, rows))
        if not event_rows:
            return EndedRuns(after, after, ())
        runs = [
            run
            for _, _, ended_at, body in event_rows
            for run in _select_ended_runs(row_codec.decode_events(bytes(body)), ended_at)
        ]
        first, count = event_rows[-1][:2]
        return EndedRuns(after, first + count - 1, await self._with_errors(runs))

    async def _with_errors(self, runs: list[EndedRun]) -> list[EndedRun]:
        failed = [run.execution for run in runs if run.error is not None]
        if not failed:
            return runs
        rows = await self._engine.read(lambda tx: tx.fetch(ERRORS, failed))
        errors = {row[0]: ErrorClass(row[1]) for row in rows if row[1] is not None}
        return [run if run.error is None else run._replace(error=errors.get(run.execution, run.error)) for run in runs]

    async def task_contents(self, tasks: Sequence[TaskId]) -> dict[TaskId, TaskContent]:
        async def read_contents(tx: Tx) -> dict[TaskId, TaskContent]:
            rows = [row for row in await tx.fetch(CONTENTS, list(tasks)) if row[1] is not None]
            await self._lanes.load_lanes(tx, {row[1] for row in rows})
            return {task: TaskContent(self._lanes[lane].requirement, bytes(spec)) for task, lane, spec in rows}

        return await self._engine.read(read_contents) if tasks else {}

    async def task_parameters(self, tasks: Sequence[TaskId]) -> dict[TaskId, bytes]:
        rows = await self._engine.read(lambda tx: tx.fetch(PARAMETERS, list(tasks))) if tasks else []
        return {task: bytes(parameters) for task, parameters in rows}

    async def fold_evidence(self, found: EndedRuns, news: Sequence[EvidenceRow], term: int) -> list[EvidenceRow] | None:
        async def move_and_fold(tx: Tx) -> list[EvidenceRow] | None:
            if await tx.execute(MOVE, str(found.after), str(found.up_to)) != 1:
                return None
            return await _fold_rows(tx, news)

        return await self._engine.write(move_and_fold, term)

    async def load_evidence(self, subjects: Sequence[Subject]) -> list[EvidenceRow]:
        wanted = set(subjects)
        keys = sorted({key for _, key in wanted})
        rows = await self._engine.read(lambda tx: tx.fetch(ROWS_ABOUT, keys)) if keys else []
        return [row for row in map(_evidence_from_row, rows) if row.subject in wanted]

    async def failed_nodes(self, tasks: Sequence[TaskId]) -> dict[TaskId, NodeId]:
        rows = await self._engine.read(lambda tx: tx.fetch(LAST_RUNS, list(tasks))) if tasks else []
        return {task: node for task, node, status in rows if status in FAILED_STATUSES}


async def add_evidence(tx: Tx, additions: Sequence[EvidenceRow]) -> list[EvidenceRow]:
    """Add evidence from other sources than ended executions, if evidence is wanted at all; return the changed rows."""
    return await _fold_rows(tx, additions) if await tx.fetch(FOLDED_TO) else []


async def _fold_rows(tx: Tx, additions: Sequence[EvidenceRow]) -> list[EvidenceRow]:
    changed: dict[int, EvidenceRow] = {}
    stored = (
        [_evidence_from_row(row) for row in await tx.fetch(ROWS_AMONG, sorted({row.id for row in additions}))]
        if additions
        else []
    )
    before = {row.id: row for row in stored}
    for row in additions:
        current = changed.get(row.id) or before.get(row.id)
        changed[row.id] = row if current is None else row._replace(record=current.record.plus(row.record))
    values = [_row_from_evidence(row) for row in changed.values()]
    await tx.insert(schema.evidence, _StoredEvidence._fields, [row for row in values if row.id not in before])
    await tx.update(schema.evidence, _StoredEvidence._fields, [row for row in values if row.id in before])
    return list(changed.values())


def _select_ended_runs(batches: Sequence[EventBatch], ended_at: Instant) -> list[EndedRun]:
    """Select the executions that ended, column by column: of all events only these are looked at one by one."""
    runs: list[EndedRun] = []
    for batch in batches:
        if batch.kind is Kind.TASK_COMPLETED or batch.kind in _FAILED_KINDS:
            # Until its row is read, the error class of a failure is not known.
            error = None if batch.kind is Kind.TASK_COMPLETED else ErrorClass.INTERNAL
            columns = (batch.each["task"], batch.each["execution"], batch.each["node"])
            runs += [
                EndedRun(task, execution, node, ended_at, error)
                for task, execution, node in zip(*columns, strict=True)
                if node
            ]
    return runs


def _evidence_from_row(row: Row) -> EvidenceRow:
    stored = _StoredEvidence._make(row)
    record = Record(
        ok=stored.ok, failed=stored.failed, blocked=stored.blocked, at=stored.at, last_blocked_at=stored.last_blocked_at
    )
    return EvidenceRow(stored.node, (stored.kind, stored.subject), stored.address, record)


def _row_from_evidence(row: EvidenceRow) -> _StoredEvidence:
    kind, subject = row.subject
    return _StoredEvidence(
        id=row.id, node=row.node, kind=kind, subject=subject, address=row.address, **row.record._asdict()
    )
