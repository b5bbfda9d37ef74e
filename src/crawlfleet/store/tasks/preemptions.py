"""Preemptions: the recall, and the row that names the task it is made for, in one transaction.

How often a task was preempted, for which tasks, and how many preemptions there were in the last minute is read from
these rows, so that a new leader knows as much as the old one did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import Recall
from crawlfleet.model.task import DecideTransition, LiveTask, RetryPolicy, TaskTransition
from crawlfleet.ports.queue_store import Preempted, Preemption, Stopping
from crawlfleet.ports.task_store import Applied
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.row_codec import RowCodec
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.transitions import Transition

_PREEMPTIONS = RowCodec(schema.preemption, Preemption)
_PREEMPT = int(Recall.PREEMPT)
_STOPPING = row_codec.sql_values(Stopping._fields, {"task": "l.id", "waiter": "p.waiter"}, "l.")
# Over the index of tasks that nodes hold: in order of id the database would rather walk over all tasks.
STOPPING = (
    f"SELECT {_STOPPING} FROM live l JOIN preemption p ON p.execution = l.execution "
    f"WHERE l.node <> 0 AND l.recall = {_PREEMPT}"
)
STOPPING_FOR = (
    f"SELECT {_STOPPING} FROM preemption p JOIN live l ON l.id = p.task "
    f"WHERE p.waiter = $1 AND l.execution = p.execution AND l.recall = {_PREEMPT}"
)
PREEMPTED = (
    "SELECT p.task, p.waiter FROM preemption p JOIN live l ON l.id = p.task AND l.round = p.round "
    "WHERE p.task AMONG($1) ORDER BY p.execution"
)
SINCE = "SELECT COUNT(*) FROM preemption WHERE at > $1"


class PreemptionTables:
    _engine: Engine
    _lanes: LaneBook

    async def preempt_executions(self, chosen: Sequence[Preemption], term: int, now: Instant) -> Applied:
        wanted = {preemption.task: preemption for preemption in chosen}

        async def recall_chosen(tx: Tx) -> Applied:
            transition = Transition(tx, self._lanes, now)
            await transition.change_tasks(list(wanted), _decide_recall(wanted))
            done = transition.applied.after
            rows = [(*_PREEMPTIONS.to_row(wanted[task]), now) for task in wanted if task in done]
            if rows:
                await tx.insert(schema.preemption, (*_PREEMPTIONS.columns, "at"), rows)
            return await transition.write_all()

        return await self._engine.write(recall_chosen, term) if wanted else Applied()

    async def stopping_executions(self, waiter: TaskId | None = None) -> list[Stopping]:
        if waiter is None:
            rows = await self._engine.read(lambda tx: tx.fetch(STOPPING))
        else:
            rows = await self._engine.read_by_key(lambda tx: tx.fetch(STOPPING_FOR, waiter))
        return [Stopping._make(row) for row in sorted(rows)]

    async def task_preemptions(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, Preempted]:
        rows = await self._engine.read(lambda tx: tx.fetch(PREEMPTED, list(tasks))) if tasks else ()
        preemptions: dict[TaskId, Preempted] = {}
        for task, waiter in rows:
            before = preemptions.get(task)
            preemptions[task] = Preempted(1 if before is None else before.times + 1, waiter)
        return preemptions

    async def preemptions_since(self, at: Instant) -> int:
        rows = await self._engine.read(lambda tx: tx.fetch(SINCE, at))
        return int(rows[0][0])


def _decide_recall(wanted: Mapping[TaskId, Preemption]) -> DecideTransition:
    """Make the decision to recall. The tasks were chosen from an earlier read: the locked row must still be the one
    read then."""

    def recall_unchanged(row: LiveTask, policy: RetryPolicy) -> TaskTransition | Refusal:
        preemption = wanted[row.id]
        if row.execution != preemption.execution or row.recall is not Recall.NONE:
            return Refusal(Code.NOT_READY, "has changed meanwhile")
        return task_state_machine.recall_execution(Recall.PREEMPT, f"makes room for {task_text(preemption.waiter)}")(
            row, policy
        )

    return recall_unchanged
