"""Takes the reports of simple clients on single executions: started, ended, handed back.

Each report names its execution. One that is not the live execution of its task is refused: a client that has lost its
lease must not end the execution of its successor. The same report again, after a lost answer, is accepted again.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.control.tasks.finish import Answer, Finish
from crawlfleet.model import limits
from crawlfleet.model.execution import End, Failure, Outcome
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, ExecutionStatus
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.task_store import TaskReadStore, TaskStore
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.scheduling.tasks.task_state_machine import ExecutionStart

_NO_NODE: NodeId = 0
_ENDED_AS = {
    End.COMPLETED: (ExecutionStatus.COMPLETED,),
    End.FAILED: (ExecutionStatus.FAILED,),
    End.TIMED_OUT: (ExecutionStatus.TIMEOUT,),
    End.RETURNED: (ExecutionStatus.RETURNED, ExecutionStatus.CANCELLED, ExecutionStatus.PREEMPTED),
}
"""Statuses of an execution that ended by such a report."""


class ExecutionReport(NamedTuple):
    """A client's report on one of its executions."""

    task: TaskId
    execution: ExecutionId
    end: End | None
    """How it ended; None for one that runs."""
    message: str = ""
    error: ErrorClass = ErrorClass.INTERNAL
    result: bytes | None = None
    metrics: bytes | None = None
    progress: bytes | None = None


class _Store(TaskStore, TaskReadStore, Protocol):
    pass


class ExecutionReports:
    def __init__(self, *, store: _Store, broker: Broker, clock: Clock, finish: Finish) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._finish = finish

    async def apply_report(self, node: NodeId | None, report: ExecutionReport) -> Answer:
        """Apply a report of a node; None: a person reports for the node that has the execution. Returns the new status
        of the task, or why the report was not accepted."""
        if node is None:
            row = (await self._store.live_tasks([report.task])).get(report.task)
            node = _NO_NODE if row is None else row.node
        answer = await (self._start(node, report) if report.end is None else self._end(node, report, report.end))
        if isinstance(answer, Refusal) and answer.code is Code.STALE_EXECUTION and report.end is not None:
            return await self._find_earlier(node, report, report.end) or answer
        return answer

    async def _start(self, node: NodeId, report: ExecutionReport) -> Answer:
        now = self._clock.now()
        decide = task_state_machine.start_execution({report.task: ExecutionStart(node, report.execution, now)})
        applied = await self._store.change_tasks([report.task], decide, now)
        await publish_hints(self._broker, applied)
        if (refusal := applied.refused.get(report.task)) is not None:
            return _STALE if refusal.code is Code.ALREADY_FINAL else refusal
        if report.progress is not None:
            await self._broker.progress.put_progress({report.execution: report.progress})
        return applied.after[report.task]

    async def _end(self, node: NodeId, report: ExecutionReport, end: End) -> Answer:
        failure = None
        if end is End.FAILED:
            message = report.message[: limits.MESSAGE_CHARS] or "failed without a message"
            failure = Failure(report.error, message)
        outcome = Outcome(node, report.task, report.execution, end, failure, report.result, report.metrics)
        (answer,) = await self._finish.finish_outcomes([outcome])
        return answer

    async def _find_earlier(self, node: NodeId, report: ExecutionReport, end: End) -> Answer | None:
        """Return the status of the task if this very report was accepted before; None if it was not."""
        executions = await self._store.task_executions(report.task)
        ended = next((execution for execution in executions if execution.id == report.execution), None)
        if ended is None or ended.status not in _ENDED_AS[end] or node not in (_NO_NODE, ended.node):
            return None
        record = (await self._store.load_tasks([report.task], with_parameters=False)).get(report.task)
        return None if record is None else record.status


_STALE = Refusal(Code.STALE_EXECUTION, "not the live execution of the task")
