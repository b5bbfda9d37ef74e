"""The runner: calls the executor for each execution and reports how it ended.

Every accepted execution ends in exactly one way: with one outcome or, when it was abandoned, with none. A stopped
execution is over when the executor's coroutine has ended, however long that takes, and is reported only then.
"""

from __future__ import annotations

import asyncio

from crawlfleet.errors import InvariantBroken
from crawlfleet.execution.agent.events import AgentEvent, OnEvent
from crawlfleet.execution.agent.sync.sync_trigger import SyncTrigger
from crawlfleet.execution.agent.work.lease_guard import NodeLease
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.slots import HeldExecution, Slots, StopCause
from crawlfleet.execution.outcome_validation import failed_outcome, validate_metrics, validate_outcome
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass, Recall
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.executor import Executor, Stopped
from crawlfleet.wire.sync import NULL, AssignmentBody, OutcomeBody

START_REPORT_S = 0.1
"""Age at which the start of an execution is reported: short ones are over by then, and need only an outcome."""
FREED_SLOT_SYNC_S = 0.02


class Runner:
    """Runs the executions of the node and reports their outcomes."""

    def __init__(
        self,
        executor: Executor,
        slots: Slots,
        outcomes: Outcomes,
        *,
        lease: NodeLease,
        sync_trigger: SyncTrigger,
        clock: Clock,
        on_event: OnEvent,
    ) -> None:
        self._executor = executor
        self._slots = slots
        self._outcomes = outcomes
        self._lease = lease
        self._sync_trigger = sync_trigger
        self._clock = clock
        self._on_event = on_event
        self._group: asyncio.TaskGroup | None = None
        self._is_closed = False
        self.session = 0

    def attach_group(self, group: asyncio.TaskGroup) -> None:
        """Set the task group in which executions run."""
        self._group = group

    def accept_assignment(self, assignment: AssignmentBody) -> None:
        self._slots.add(HeldExecution(assignment, self.session))
        self.fill_slots()

    def fill_slots(self) -> None:
        """Start waiting executions as far as there are free slots."""
        if self._group is None:
            raise InvariantBroken("the runner has no group to run executions in")
        while (running := self._slots.start_next_waiting()) is not None:
            running.task = self._group.create_task(self._run_execution(running), name=f"execution-{running.id}")

    def report_unstarted(self, task: int, execution: int, end: End, message: str) -> None:
        """Report an execution that never ran here."""
        self._report_end(task, execution, OutcomeBody(task=task, execution=execution, end=end, message=message))

    def recall_execution(self, execution: int, reason: Recall) -> bool:
        """Stop an execution by recall; False when it is not here, or is being stopped already."""
        running = self._slots.get(execution)
        if running is None:
            return False
        is_new = running.cause < StopCause.RECALL
        running.recall = reason
        self._stop_execution(running, StopCause.RECALL)
        return is_new

    def abandon_execution(self, execution: int) -> bool:
        """Stop an execution and report nothing; False when it is not here, or was abandoned before."""
        running = self._slots.get(execution)
        if running is None or running.cause is StopCause.ABANDON:
            return False
        self._stop_execution(running, StopCause.ABANDON)
        return True

    def abandon_all(self) -> None:
        self._stop_all(StopCause.ABANDON)

    def hand_back_waiting(self) -> None:
        for running in self._slots.waiting_executions():
            self._stop_execution(running, StopCause.HAND_BACK)

    def hand_back_all(self) -> None:
        self._stop_all(StopCause.HAND_BACK)

    def stop_for_lease(self) -> None:
        lapsed = [
            running.id
            for running in self._slots.running_executions() + self._slots.waiting_executions()
            if running.cause < StopCause.LEASE
        ]
        if lapsed:
            self._on_event(AgentEvent.LEASE_LAPSED, {"session": self.session, "executions": lapsed})
        self._stop_all(StopCause.LEASE)

    def cancel_all(self) -> None:
        """Cancel all executions because the agent is cancelled: from now on nothing is started or reported.

        Called before the task group cancels them, which happens in no certain order: a simulation needs one.
        """
        self._is_closed = True
        for running in self._slots.running_executions():
            if running.task is not None:
                running.task.cancel()

    def _stop_all(self, cause: StopCause) -> None:
        for running in self._slots.waiting_executions() + self._slots.running_executions():
            self._stop_execution(running, cause)

    def _stop_execution(self, running: HeldExecution, cause: StopCause) -> None:
        running.stop(cause)
        if running.task is None:
            self._finish_execution(running, _stop_outcome(running))

    async def _run_execution(self, running: HeldExecution) -> None:
        if self._lease.is_over:
            running.note_cause(StopCause.LEASE)
        if running.cause is not StopCause.NONE:
            self._finish_execution(running, _stop_outcome(running))
            return
        outcome = await self._call_executor(running)
        if self._lease.is_over:
            running.note_cause(StopCause.LEASE)
        if outcome is not None and not _is_outcome_accepted(running, outcome):
            running.metrics, running.used, outcome = outcome.metrics, outcome.used, None
        self._finish_execution(running, outcome or _stop_outcome(running))

    async def _call_executor(self, running: HeldExecution) -> OutcomeBody | None:
        """Run the executor and return its validated outcome; None when it was stopped before it had one."""
        assignment = running.assignment
        running.started_at = self._clock.monotonic()
        self._on_event(
            AgentEvent.EXECUTION_STARTED,
            {"task": assignment.task, "execution": assignment.execution, "session": running.session},
        )
        self._sync_trigger.schedule_sync(within_s=START_REPORT_S)
        timer = asyncio.get_running_loop().call_later(assignment.timeout_s, running.stop, StopCause.TIMEOUT)
        try:
            return validate_outcome(await self._executor.run(assignment), assignment)
        except asyncio.CancelledError as exc:
            if running.cause is not StopCause.NONE:
                if isinstance(exc, Stopped):
                    running.metrics, running.used = validate_metrics(exc.metrics), exc.used
                return None
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return failed_outcome(assignment, "the executor cancelled itself")
        except Exception as exc:
            return failed_outcome(assignment, f"{type(exc).__name__}: {exc}")
        finally:
            timer.cancel()

    def _finish_execution(self, running: HeldExecution, outcome: OutcomeBody | None) -> None:
        self._slots.remove(running)
        if self._is_closed:
            return
        assignment = running.assignment
        self._report_end(assignment.task, assignment.execution, outcome, running)
        self.fill_slots()

    def _report_end(
        self, task: int, execution: int, outcome: OutcomeBody | None, running: HeldExecution | None = None
    ) -> None:
        started_at = running.started_at if running else None
        self._on_event(
            AgentEvent.EXECUTION_ENDED,
            {
                "task": task,
                "execution": execution,
                "session": running.session if running else self.session,
                "end": None if outcome is None else End(outcome.end),
                "was_started": started_at is not None,
                "task_type": running.assignment.task_type if running else None,
            },
        )
        if outcome is not None:
            self._outcomes.add(outcome, started_at, is_last=not len(self._slots))
        else:
            # A slot became free that the masters did not count.
            self._sync_trigger.schedule_sync(within_s=FREED_SLOT_SYNC_S)


def _is_outcome_accepted(running: HeldExecution, outcome: OutcomeBody) -> bool:
    """Whether the executor's outcome counts although the execution was stopped.

    After a recall or in a drain a completed outcome still counts. For all other causes it is too late.
    """
    if running.cause is StopCause.NONE:
        return True
    return outcome.end == End.COMPLETED and running.cause <= StopCause.RECALL


def _stop_outcome(running: HeldExecution) -> OutcomeBody | None:
    assignment = running.assignment
    end, error, message = End.STOPPED, 0, ""
    match running.cause:
        case StopCause.ABANDON:
            return None
        case StopCause.TIMEOUT:
            end, error = End.TIMED_OUT, int(ErrorClass.TIMEOUT)
            message = f"stopped after its timeout of {assignment.timeout_s} s"
        case StopCause.LEASE:
            message = "stopped by its node, which could not renew its lease"
        case StopCause.RECALL:
            message = f"recalled: {running.recall.word}"
        case StopCause.HAND_BACK:
            end, message = End.RETURNED, "handed back by a draining node"
        case StopCause.NONE:
            raise InvariantBroken(f"execution {assignment.execution} ended without a cause")
    return OutcomeBody(
        task=assignment.task,
        execution=assignment.execution,
        end=end,
        error=error,
        message=message,
        metrics=NULL if running.metrics is None else running.metrics,
        used=running.used,
    )
