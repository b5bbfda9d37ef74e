"""Live tasks: the verbs of the hot path, and the reads that deliver work to nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.execution import Outcome
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import DecideTransition, FinalTask, LiveTask
from crawlfleet.ports.task_store import Applied, Assignment, Delivery
from crawlfleet.store import schema, task_rows
from crawlfleet.store.composites.group_membership import reopen_groups
from crawlfleet.store.composites.products import ProductSighting, put_products
from crawlfleet.store.engine.transaction import COMPLETE_COLUMNS, Engine, Row, Tx
from crawlfleet.store.projects.daily_quota import return_unused
from crawlfleet.store.projects.projects import behind_fences
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.task_assign import assign_batch
from crawlfleet.store.tasks.transaction_log import TransactionLog
from crawlfleet.store.tasks.transitions import LIVE_LIST, UNKNOWN_TASK, Transition

LIVE_AMONG = f"SELECT {LIVE_LIST} FROM live l WHERE l.id AMONG($1)"
HELD_BY = f"SELECT {LIVE_LIST} FROM live l WHERE l.node AMONG($1) AND l.node <> 0"
DELIVERIES = (
    "SELECT t.id, n.task_type, t.parameters, p.is_metered, t.spec FROM task t JOIN live l ON l.id = t.id "
    "JOIN lane n ON n.id = l.lane LEFT JOIN project p ON p.name = t.project WHERE t.id AMONG($1)"
)
LOCK_FINAL = f"SELECT {task_rows.DONE.select} FROM done WHERE id AMONG($1) ORDER BY id LOCK_ROWS(done)"
DELETE_FINAL = "DELETE FROM done WHERE id AMONG($1)"
# The execution that completed the task moves to the history when the task is opened again.
KEEP_EXECUTIONS = (
    f"INSERT INTO execution ({', '.join(task_rows.EXECUTION_COLUMNS)}) {task_rows.kept_in_done('id AMONG($1)')}"
)
DELETE_DEAD_LETTERS = "DELETE FROM dead_letter WHERE task AMONG($1)"
IN_FLOWS = "SELECT task FROM flow_step WHERE task AMONG($1)"
_PART_OF_FLOW = Refusal(Code.PART_OF_FLOW, "is part of a flow: resume the flow, and it runs again in its place")
_COMPLETE_VALUES = itemgetter(*map(Outcome._fields.index, COMPLETE_COLUMNS))
_STARTED_AT = COMPLETE_COLUMNS.index("started_at")
_PRODUCTS = itemgetter(Outcome._fields.index("products"))
_ASSIGNED, _PENDING, _COMPLETED = TaskStatus.ASSIGNED, TaskStatus.PENDING, TaskStatus.COMPLETED
_WAITING = TaskStatus.WAITING


class TaskTables:
    _engine: Engine
    _lanes: LaneBook

    async def change_tasks(
        self, tasks: Sequence[TaskId], decide: DecideTransition, now: Instant, term: int | None = None
    ) -> Applied:
        async def make_transitions(tx: Tx) -> Applied:
            transition = Transition(tx, self._lanes, now)
            await transition.change_tasks(tasks, decide)
            return await transition.write_all()

        return await self._engine.write(make_transitions, term) if tasks else Applied()

    async def assign_tasks(
        self,
        batch: Sequence[Assignment],
        term: int | None,
        now: Instant,
        fences: Mapping[str, int] | None = None,
        pulls: Mapping[NodeId, int] | None = None,
    ) -> Applied:
        async def assign_unfenced(tx: Tx) -> Applied:
            behind = await behind_fences(tx, fences) if fences else ()
            return await assign_batch(tx, self._lanes, batch, now, behind, pulls)

        return await self._engine.write(assign_unfenced, term) if batch else Applied()

    async def complete_executions(self, outcomes: Sequence[Outcome], now: Instant) -> Applied:
        async def complete_outcomes(tx: Tx) -> Applied:
            return await _complete_outcomes(tx, self._lanes, outcomes, now)

        return await self._engine.write(complete_outcomes) if outcomes else Applied()

    async def reopen_tasks(self, tasks: Sequence[TaskId], now: Instant) -> Applied:
        async def reopen_finals(tx: Tx) -> Applied:
            return await _reopen_finals(tx, self._lanes, tasks, now)

        return await self._engine.write(reopen_finals) if tasks else Applied()

    async def drop_tasks(self, tasks: Sequence[TaskId], now: Instant) -> Applied:
        async def drop_finals(tx: Tx) -> Applied:
            return await _drop_finals(tx, self._lanes, tasks, now)

        return await self._engine.write(drop_finals) if tasks else Applied()

    async def live_tasks(self, tasks: Sequence[TaskId]) -> dict[TaskId, LiveTask]:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(LIVE_AMONG, list(tasks)))
        return {row[0]: task_rows.live_task_from_row(row) for row in rows}

    async def held_tasks(self, nodes: Sequence[NodeId]) -> dict[NodeId, list[LiveTask]]:
        held: dict[NodeId, list[LiveTask]] = {node: [] for node in nodes}
        for row in await self._engine.read_by_key(lambda tx: tx.fetch(HELD_BY, list(nodes))):
            task = task_rows.live_task_from_row(row)
            held[task.node].append(task)
        return held

    async def load_deliveries(self, tasks: Sequence[TaskId]) -> dict[TaskId, Delivery]:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(DELIVERIES, list(tasks)))
        return {
            row[0]: Delivery(row[0], row[1], bytes(row[2]), bool(row[3]), task_rows.spec_traceparent(row[4]))
            for row in rows
        }


async def _complete_outcomes(tx: Tx, lanes: LaneBook, outcomes: Sequence[Outcome], now: Instant) -> Applied:
    rows: list[Row] = list(map(_COMPLETE_VALUES, outcomes))
    if len(set(map(itemgetter(1), rows))) != len(rows):
        rows = list({row[:3]: row for row in reversed(rows)}.values())
    moved = await tx.complete_tasks(rows, now)
    transition = Transition(tx, lanes, now)
    applied, tx_log = transition.applied, transition.tx_log
    if moved:
        tasks, executions, nodes, in_lanes, had, groups, ready, assigned, started = zip(*moved, strict=True)
        await lanes.load_lanes(tx, set(in_lanes))
        if None in started:
            reported = {row[0]: row[_STARTED_AT] for row in rows}
            pairs = zip(tasks, started, strict=True)
            started = tuple(reported[task] if began is None else began for task, began in pairs)
        tx_log.count_completions(list(zip(in_lanes, nodes, had, ready, assigned, started, strict=True)), now)
        if any(groups):
            for group, count in Counter(group for group in groups if group is not None).items():
                tx_log.count_member(group, _ASSIGNED, _COMPLETED, count)
        each = {"task": tasks, "execution": executions, "node": nodes}
        tx_log.add_events(EventBatch(Kind.TASK_COMPLETED, each))
        applied.after = dict.fromkeys(tasks, _COMPLETED)
        applied.freed = list(zip(nodes, executions, strict=True))
        if used := {outcome.execution: outcome.used for outcome in outcomes if outcome.used is not None}:
            await return_unused(tx, {execution: used[execution] for execution in executions if execution in used})
        if any(map(_PRODUCTS, outcomes)):
            projects = {run: lanes[lane].project for run, lane in zip(executions, in_lanes, strict=True)}
            await put_products(tx, _seen_products(outcomes, projects), now)
        await transition.release_children(applied.after)
    if len(moved) != len(outcomes):
        await _explain_stale(tx, outcomes, {row[0] for row in moved}, applied)
    return await transition.write_all()


def _seen_products(outcomes: Sequence[Outcome], projects: Mapping[ExecutionId, str]) -> list[ProductSighting]:
    """Return the products seen by the outcomes that were accepted."""
    return [
        ProductSighting(projects[outcome.execution], outcome.execution, product)
        for outcome in outcomes
        if outcome.execution in projects
        for product in outcome.products
    ]


async def _explain_stale(tx: Tx, outcomes: Sequence[Outcome], accepted: set[TaskId], applied: Applied) -> None:
    missing = {outcome.task: outcome for outcome in outcomes if outcome.task not in accepted}
    held = {row[0]: task_rows.live_task_from_row(row) for row in await tx.fetch(LIVE_AMONG, list(missing))}
    final = {row[0] for row in await tx.fetch("SELECT id FROM done WHERE id AMONG($1)", list(missing))}
    for task, outcome in missing.items():
        if task in held and held[task].execution == outcome.execution and held[task].node != outcome.node:
            applied.refused[task] = Refusal(Code.WRONG_NODE, "the execution belongs to another node")
        elif task in held or task in final:
            applied.refused[task] = Refusal(Code.STALE_EXECUTION, "not the live execution of the task")
        else:
            applied.refused[task] = UNKNOWN_TASK


async def _reopen_finals(tx: Tx, lanes: LaneBook, tasks: Sequence[TaskId], now: Instant) -> Applied:
    applied, tx_log = Applied(), TransactionLog()
    finals = task_rows.DONE.from_rows(await tx.fetch(LOCK_FINAL, list(dict.fromkeys(tasks))))
    if members := [final.id for final in finals if final.group is not None]:
        in_flows = {row[0] for row in await tx.fetch(IN_FLOWS, members)}
        applied.refused.update((task, _PART_OF_FLOW) for task in in_flows)
        finals = [final for final in finals if final.id not in in_flows]
    await next_round(tx, lanes, finals, {}, applied, tx_log, now)
    await _refuse_others(tx, tasks, applied)
    await tx_log.write_log(tx, now)
    return applied


async def next_round(
    tx: Tx,
    lanes: LaneBook,
    finals: Sequence[FinalTask],
    waits: Mapping[TaskId, int],
    applied: Applied,
    tx_log: TransactionLog,
    now: Instant,
) -> None:
    """Begin the next round of final tasks, with fresh retries; `waits` gives the number of tasks that a task waits
    for."""
    if not finals:
        return
    await lanes.load_lanes(tx, (final.lane for final in finals))
    opened: list[LiveTask] = []
    for final in finals:
        status = _WAITING if final.id in waits else _PENDING
        opened.append(
            LiveTask.new(
                final.id,
                final.lane,
                final.timeout_s,
                status=status,
                round=final.round + 1,
                waits=waits.get(final.id, 0),
                group=final.group,
                ready_at=now if status is _PENDING else None,
            )
        )
        tx_log.count_transition(final.lane, final.status, status)
        if final.group is not None:
            tx_log.count_member(final.group, final.status, status)
        applied.after[final.id] = status
        if status is _PENDING:
            applied.ready.setdefault(final.lane, []).append(final.id)
    ids = [final.id for final in finals]
    await tx.execute(KEEP_EXECUTIONS, ids)
    await tx.execute(DELETE_FINAL, ids)
    await tx.execute(DELETE_DEAD_LETTERS, ids)
    await tx.insert(schema.live, task_rows.LIVE_COLUMNS, task_rows.LIVE.to_rows(opened))
    await reopen_groups(tx, (final.group for final in finals if final.group is not None))
    tx_log.add_events(EventBatch(Kind.TASK_REOPENED, {"task": ids, "round": [task.round for task in opened]}))


async def _drop_finals(tx: Tx, lanes: LaneBook, tasks: Sequence[TaskId], now: Instant) -> Applied:
    applied, tx_log = Applied(), TransactionLog()
    finals = task_rows.DONE.from_rows(await tx.fetch(LOCK_FINAL, list(dict.fromkeys(tasks))))
    await lanes.load_lanes(tx, (final.lane for final in finals))
    for final in finals:
        tx_log.count_transition(final.lane, final.status, None)
        if final.group is not None:
            tx_log.count_member(final.group, final.status, None)
        applied.after[final.id] = final.status
    await _refuse_others(tx, tasks, applied)
    if finals:
        ids = list(applied.after)
        await forget_tasks(tx, ids)
        tx_log.add_events(EventBatch(Kind.TASK_DROPPED, {"task": ids}))
    await tx_log.write_log(tx, now)
    return applied


async def forget_tasks(tx: Tx, finals: Sequence[TaskId]) -> None:
    """Delete every trace of final tasks; the chunks of their executions are listed, and removed after the commit."""
    ids = list(finals)
    await tx.insert_new(schema.chunk_removal, ("task",), [(task,) for task in ids])
    await tx.execute(DELETE_FINAL, ids)
    await tx.execute(DELETE_DEAD_LETTERS, ids)
    await tx.execute("DELETE FROM execution WHERE task AMONG($1)", ids)
    await tx.execute("DELETE FROM preemption WHERE task AMONG($1)", ids)
    # A task that was cancelled while it waited still has edges to the parents it waited for.
    await tx.execute("DELETE FROM dependency WHERE child AMONG($1)", ids)
    await tx.execute("DELETE FROM flow_step WHERE task AMONG($1)", ids)
    await tx.execute("DELETE FROM task WHERE id AMONG($1)", ids)


async def _refuse_others(tx: Tx, tasks: Sequence[TaskId], applied: Applied) -> None:
    missing = [task for task in tasks if task not in applied.after and task not in applied.refused]
    if missing:
        live = {row[0] for row in await tx.fetch("SELECT id FROM live WHERE id AMONG($1)", missing)}
        for task in missing:
            is_live = task in live
            applied.refused[task] = Refusal(Code.NOT_FINAL, "has not ended") if is_live else UNKNOWN_TASK
