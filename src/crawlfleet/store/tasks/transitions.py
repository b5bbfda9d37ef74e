"""Transitions of live tasks: decided transitions written in batches, with executions, events, counters and dependants.

Whatever a transition does to a task is written here and nowhere else, so that the rules that tie tables together (a
final task leaves `live`, a finished execution gets its row, a parent's end reaches its children) hold for every verb.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from crawlfleet.model.daily_quota import Amounts
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.execution import Failure
from crawlfleet.model.ids import ExecutionId, TaskId, task_text
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import TaskStatus, is_legal
from crawlfleet.model.task import DecideTransition, FinalTask, LiveTask, ParkedTask, RetryPolicy, TaskTransition
from crawlfleet.ports.task_store import Applied
from crawlfleet.scheduling.quotas.project_quota import SubmitQuota
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store import schema, task_rows
from crawlfleet.store.composites.flow_release import StepRelease
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.projects.daily_quota import return_unused
from crawlfleet.store.task_rows import DeadLetterRow, ExecutionRow
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.parking import add_parkings, forget_parkings
from crawlfleet.store.tasks.transaction_log import TransactionLog

LIVE_LIST = ", ".join(f"l.{column}" for column in task_rows.LIVE_COLUMNS)
LOCK_LIVE = (
    f"SELECT {LIVE_LIST}, t.spec FROM live l JOIN task t ON t.id = l.id WHERE l.id AMONG($1) ORDER BY l.id LOCK_ROWS(l)"
)
LOCK_HELD = (
    f"SELECT {LIVE_LIST}, t.spec FROM live l JOIN task t ON t.id = l.id "
    "WHERE l.node = $1 AND l.node <> 0 ORDER BY l.id LOCK_ROWS(l)"
)
ANY_CHILDREN = "SELECT 1 FROM dependency LIMIT 1"
CHILDREN = "SELECT parent, child, kind FROM dependency WHERE parent AMONG($1)"
FORGET_CHILDREN = "DELETE FROM dependency WHERE parent AMONG($1)"
FINAL_AMONG = "SELECT id FROM done WHERE id AMONG($1)"
DELETE_LIVE = "DELETE FROM live WHERE id AMONG($1)"
_EVENT_FIELDS = ("task", "round", "execution", "node", "status", "retries", "reason")
_PARKED_EVENT_FIELDS = (*_EVENT_FIELDS, "cause", "subject", "until", "times")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+")
_CAUSE_CHARS = 160
_LANE = task_rows.LIVE_COLUMNS.index("lane")


class Transition:
    """The transitions of one transaction."""

    def __init__(self, tx: Tx, lanes: LaneBook, now: Instant) -> None:
        self.applied = Applied()
        self.tx_log = TransactionLog()
        self.doors: dict[str, SubmitQuota | None] = {}
        """Submit quotas of the projects that get more tasks in this transaction."""
        self._tx = tx
        self._lanes = lanes
        self._now = now
        self._updates: dict[TaskId, LiveTask] = {}
        self._finals: dict[TaskId, FinalTask] = {}
        self._executions: list[ExecutionRow] = []
        self._dead_letters: list[DeadLetterRow] = []
        self._parked: dict[TaskId, ParkedTask] = {}
        self._unparked: set[TaskId] = set()
        self._used: dict[ExecutionId, Amounts] = {}
        self._entered: set[LaneId] = set()
        """Lanes that tasks were moved to."""
        self._event_rows: dict[Kind, list[Row]] = defaultdict(list)

    async def change_tasks(self, tasks: Sequence[TaskId], decide: DecideTransition) -> None:
        """Lock the live rows of `tasks` and make the transitions decided for them."""
        wanted = list(dict.fromkeys(tasks))
        rows = await self._tx.fetch(LOCK_LIVE, wanted)
        await self.apply_decisions(rows, decide)
        missing = set(wanted).difference(row[0] for row in rows)
        if missing:
            final = {row[0] for row in await self._tx.fetch(FINAL_AMONG, sorted(missing))}
            for task in missing:
                self.applied.refused[task] = Refusal(Code.ALREADY_FINAL, "has ended") if task in final else UNKNOWN_TASK

    async def change_held_tasks(self, node: int, decide: DecideTransition) -> None:
        """Lock the live rows of everything a node holds, and make the transitions decided for them."""
        await self.apply_decisions(await self._tx.fetch(LOCK_HELD, node), decide)

    async def apply_decisions(self, rows: Sequence[Row], decide: DecideTransition) -> None:
        await self._lanes.load_lanes(self._tx, (row[_LANE] for row in rows))
        finals: dict[TaskId, TaskStatus] = {}
        for row in rows:
            task = task_rows.live_task_from_row(row[:-1])
            step = decide(task, task_rows.retry_policy(row[-1]))
            if isinstance(step, Refusal):
                self.applied.refused[task.id] = step
            elif self.apply_transition(task, step) and step.after.status.is_final:
                finals[task.id] = step.after.status
        await self.release_children(finals)

    async def lock_tasks(self, tasks: Iterable[TaskId]) -> list[LiveTask]:
        """Lock the live rows of these tasks, and return them as they are now; no other transaction changes them until
        the end."""
        await self.flush_rows()
        rows = await self._tx.fetch(LOCK_LIVE, sorted(tasks))
        await self._lanes.load_lanes(self._tx, (row[_LANE] for row in rows))
        return [task_rows.live_task_from_row(row[:-1]) for row in rows]

    async def release_children(self, finals: dict[TaskId, TaskStatus]) -> None:
        """Release the children of tasks that ended; a child that can never run is cancelled, and its children after
        it."""
        if not finals or not await self._tx.fetch(ANY_CHILDREN):
            return
        while finals:
            edges = await self._tx.fetch(CHILDREN, list(finals))
            if not edges:
                return
            await self._tx.execute(FORGET_CHILDREN, list(finals))
            steps = [edge for edge in edges if edge[2]]
            if not steps:
                finals = await self._step_children(finals, edges)
                continue
            finals = await self._step_children(finals, [edge for edge in edges if not edge[2]])
            release = StepRelease(self, self._tx, self._lanes, self._now)
            finals |= await release.parents_ended(Counter(edge[1] for edge in steps))

    async def _step_children(self, finals: dict[TaskId, TaskStatus], edges: Sequence[Row]) -> dict[TaskId, TaskStatus]:
        parents: dict[TaskId, list[TaskId]] = defaultdict(list)
        for parent, child, _ in edges:
            parents[child].append(parent)
        rows = await self._tx.fetch(LOCK_LIVE, sorted(parents))
        await self._lanes.load_lanes(self._tx, (row[_LANE] for row in rows))
        ended: dict[TaskId, TaskStatus] = {}
        for row in rows:
            # One child may be reached twice in a transaction: its newest row is the one to continue from.
            child = self._updates.get(row[0]) or task_rows.live_task_from_row(row[:-1])
            if child.status is TaskStatus.WAITING and child.id not in self._finals:
                step = _child_step(child, parents[child.id], finals, self._now, task_rows.retry_policy(row[-1]))
                if self.apply_transition(child, step) and step.after.status.is_final:
                    ended[child.id] = step.after.status
        return ended

    def apply_transition(self, task: LiveTask, step: TaskTransition, *, is_unrun: bool = False) -> bool:
        """Apply a transition; return whether it was legal and changed the task."""
        after = step.after
        if after == task:
            self.applied.after[task.id] = task.status
            return False
        if after.status is not task.status and not is_legal(task.status, after.status, is_unrun=is_unrun):
            detail = f"{task.status.word} does not become {after.status.word}"
            self.applied.refused[task.id] = Refusal(Code.ILLEGAL_TRANSITION, detail)
            return False
        if after.status is TaskStatus.PENDING is not task.status:
            after = after._replace(ready_at=self._now)
            step = step._replace(after=after)
        self.applied.after[task.id] = after.status
        self._count_figures(task, step)
        if task.group is not None:
            self.tx_log.count_member(task.group, task.status, after.status)
        if step.ended is not None:
            self._executions.append(_execution_row(task, step, self._now))
            if step.used is not None:
                self._used[task.execution] = step.used
        if after.status.is_final:
            self._updates.pop(task.id, None)
            self._finals[task.id] = FinalTask.from_live(after, step.reason, self._now)
            if step.is_dead_letter:
                self._dead_letters.append(_dead_letter_row(task, step, self._lanes[task.lane], self._now))
        else:
            self._updates[task.id] = after
        if after.lane != task.lane:
            self._entered.add(after.lane)
        if step.parking is not None:
            self._parked[task.id] = step.parking
        elif task.status is TaskStatus.WAITING is not after.status and task.due_at is not None:
            self._unparked.add(task.id)
        self._add_hints(task, after)
        self._add_event_row(task, step)
        return True

    def _count_figures(self, task: LiveTask, step: TaskTransition) -> None:
        after, tx_log = step.after, self.tx_log
        if after.lane != task.lane:
            tx_log.count_lane_change(task.lane, after.lane, task.status)
        tx_log.count_transition(after.lane, task.status, after.status, node=task.node)
        is_started = task.status is TaskStatus.ASSIGNED and (
            after.status is TaskStatus.PROCESSING or (step.ended is not None and step.started_at is not None)
        )
        if is_started:
            tx_log.count_start(task.lane, task.node)
        if step.ended is not None:
            assert task.assigned_at is not None
            started_at = task.started_at if task.started_at is not None else step.started_at
            tx_log.count_execution_end(
                task.lane,
                task.node,
                step.ended,
                error=step.failure.error if step.failure else None,
                is_retried=after.status is TaskStatus.RETRYING,
                ran_ms=self._now - (task.assigned_at if started_at is None else started_at),
                wait_ms=0 if task.ready_at is None else task.assigned_at - task.ready_at,
            )

    def _add_hints(self, before: LiveTask, after: LiveTask) -> None:
        is_ready = after.status is TaskStatus.PENDING
        if is_ready and (before.status is not TaskStatus.PENDING or before.lane != after.lane):
            self.applied.ready.setdefault(after.lane, []).append(after.id)
        if before.node and not after.status.is_held:
            self.applied.freed.append((before.node, before.execution))
        if before.node and after.recall is not before.recall and after.status.is_held:
            self.applied.nodes_to_wake.add(before.node)

    def _add_event_row(self, before: LiveTask, step: TaskTransition) -> None:
        after = step.after
        if step.kind is Kind.TASK_READY and after.status is before.status:
            return
        row: Row = (
            before.id,
            before.round,
            before.execution,
            before.node,
            int(after.status),
            after.retries,
            step.reason,
        )
        if (parking := step.parking) is not None:
            row = (*row, parking.cause.word, parking.subject, to_text(parking.until), parking.times)
        self._event_rows[step.kind].append(row)

    async def flush_rows(self) -> None:
        """Write the rows of the transitions made so far, for a caller that has to read them in the same transaction."""
        tx = self._tx
        if self._entered:
            await self._lanes.keep_lanes(tx, self._entered)
        if self._updates:
            await tx.update(schema.live, task_rows.LIVE_COLUMNS, task_rows.LIVE.to_rows(self._updates.values()))
        if self._finals:
            await tx.execute(DELETE_LIVE, list(self._finals))
            await tx.insert(schema.done, task_rows.DONE_COLUMNS, task_rows.DONE.to_rows(self._finals.values()))
        if self._executions:
            await tx.insert(schema.execution, task_rows.EXECUTION_COLUMNS, self._executions)
        if self._dead_letters:
            await tx.insert(schema.dead_letter, task_rows.DEAD_LETTER_COLUMNS, self._dead_letters)
        if self._parked:
            await add_parkings(tx, self._parked, self._now)
        if self._unparked:
            await forget_parkings(tx, self._unparked)
        if self._used:
            await return_unused(tx, self._used)
        self._updates, self._finals, self._executions, self._dead_letters = {}, {}, [], []
        self._parked, self._unparked = {}, set()
        self._used, self._entered = {}, set()

    async def write_all(self) -> Applied:
        await self.flush_rows()
        for kind, rows in self._event_rows.items():
            columns = zip(*rows, strict=True)
            names = _PARKED_EVENT_FIELDS if kind is Kind.TASK_PARKED else _EVENT_FIELDS
            self.tx_log.add_events(EventBatch(kind, dict(zip(names, columns, strict=True))))
        await self.tx_log.write_log(self._tx, self._now)
        return self.applied


UNKNOWN_TASK = Refusal(Code.UNKNOWN_TASK, "no such task")


def _child_step(
    child: LiveTask, parents: list[TaskId], finals: dict[TaskId, TaskStatus], now: Instant, policy: RetryPolicy
) -> TaskTransition:
    for parent in parents:
        if finals[parent] is not TaskStatus.COMPLETED:
            decide = task_state_machine.cancel_task(parent_ended(parent, finals[parent]))
            break
    else:
        decide = task_state_machine.count_completed_parents(now, len(parents))
    step = decide(child, policy)
    assert isinstance(step, TaskTransition)
    return step


def parent_ended(parent: TaskId, status: TaskStatus) -> str:
    return f"depends on {task_text(parent)}, which ended {status.word}"


def dead_letter_cause(failure: Failure | None, reason: str | None) -> str:
    """Return the cause by which dead letters are counted together: the error without the parts that differ from one to
    the next."""
    text = f"{failure.error.word}: {failure.message}" if failure else (reason or "unknown")
    if reason and reason.startswith("poison"):
        text = f"poison: {text}"
    return _VARYING.sub("#", text)[:_CAUSE_CHARS]


def _execution_row(task: LiveTask, step: TaskTransition, now: Instant) -> ExecutionRow:
    failure = step.failure
    assert task.assigned_at is not None
    return ExecutionRow(
        id=task.execution,
        task=task.id,
        round=task.round,
        retry=task.retries,
        node=task.node,
        session=task.session,
        status=int(step.ended) if step.ended is not None else 0,
        assigned_at=task.assigned_at,
        started_at=task.started_at if task.started_at is not None else step.started_at,
        ended_at=now,
        error=int(failure.error) if failure else None,
        message=failure.message if failure else step.reason,
        is_permanent=int(failure.is_permanent) if failure else 0,
        result=step.result,
        metrics=step.metrics,
    )


def _dead_letter_row(task: LiveTask, step: TaskTransition, lane: Lane, now: Instant) -> DeadLetterRow:
    failure = step.failure
    return DeadLetterRow(
        task=task.id,
        round=task.round,
        project=lane.project,
        task_type=lane.requirement.task_type,
        cause=dead_letter_cause(failure, step.reason),
        error=int(failure.error) if failure else None,
        message=failure.message if failure else step.reason,
        is_permanent=int(failure.is_permanent) if failure else 0,
        buried_at=now,
    )
