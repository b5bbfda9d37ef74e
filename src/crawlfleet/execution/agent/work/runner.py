"""Runs executions through the executor and settles how each one ended.

Every execution accepted ends in exactly one way: one outcome, or, when it was abandoned, silence. An execution told to
stop is over when the executor's coroutine has ended, however long that takes, and is reported only then.
"""

from __future__ import annotations

import asyncio

from crawlfleet.errors import InvariantBroken
from crawlfleet.execution.agent.events import AgentEvent, OnEvent
from crawlfleet.execution.agent.sync.sync_trigger import SyncTrigger
from crawlfleet.execution.agent.work.lease_guard import Lease
from crawlfleet.execution.agent.work.outcome_validation import bounded, bounded_metrics, failed
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.slots import Cause, Running, Slots
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass, Recall
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.executor import Executor, Stopped
from crawlfleet.wire.sync import NULL, AssignmentBody, OutcomeBody

START_TOLD_S = 0.1
"""A start is told when the work has run so long: short work is over by then, and its outcome says all there is."""
SLOT_GATHER_S = 0.02


class Runner:
    def __init__(
        self,
        executor: Executor,
        slots: Slots,
        outcomes: Outcomes,
        *,
        lease: Lease,
        news: SyncTrigger,
        clock: Clock,
        on_event: OnEvent,
    ) -> None:
        self._executor = executor
        self._slots = slots
        self._outcomes = outcomes
        self._lease = lease
        self._news = news
        self._clock = clock
        self._on_event = on_event
        self._group: asyncio.TaskGroup | None = None
        self._is_closed = False
        self.session = 0

    def attach(self, group: asyncio.TaskGroup) -> None:
        """Executions become tasks of this group."""
        self._group = group

    def accept(self, assignment: AssignmentBody) -> None:
        self._slots.add(Running(assignment, self.session))
        self.fill()

    def fill(self) -> None:
        """Start what waits, as far as there are slots."""
        if self._group is None:
            raise InvariantBroken("the runner has no group to run executions in")
        while (running := self._slots.next_waiting()) is not None:
            running.task = self._group.create_task(self._run(running), name=f"execution-{running.execution}")

    def settle_unstarted(self, task: int, execution: int, end: End, message: str) -> None:
        """Report an execution that never ran here."""
        self._settle(task, execution, OutcomeBody(task=task, execution=execution, end=end, message=message))

    def recall(self, execution: int, reason: Recall) -> bool:
        """False when it is not here, or was told to stop before."""
        running = self._slots.get(execution)
        if running is None:
            return False
        is_new = running.cause < Cause.RECALL
        running.recall = reason
        self._stop(running, Cause.RECALL)
        return is_new

    def abandon(self, execution: int) -> bool:
        """Stop it and report nothing; False when it is not here, or was abandoned before."""
        running = self._slots.get(execution)
        if running is None or running.cause is Cause.ABANDON:
            return False
        self._stop(running, Cause.ABANDON)
        return True

    def abandon_all(self) -> None:
        self._stop_all(Cause.ABANDON)

    def hand_back_waiting(self) -> None:
        for running in self._slots.waiting():
            self._stop(running, Cause.HAND_BACK)

    def hand_back_all(self) -> None:
        self._stop_all(Cause.HAND_BACK)

    def stop_for_lease(self) -> None:
        lapsed = [one.execution for one in self._slots.running() + self._slots.waiting() if one.cause < Cause.LEASE]
        if lapsed:
            self._on_event(AgentEvent.LEASE_LAPSED, {"session": self.session, "executions": lapsed})
        self._stop_all(Cause.LEASE)

    def cancel_all(self) -> None:
        """The agent is being cancelled, as good as killed: nothing starts or is told any more.

        Said before its task group does the same, which cancels in no certain order: a simulation needs one.
        """
        self._is_closed = True
        for running in self._slots.running():
            if running.task is not None:
                running.task.cancel()

    def _stop_all(self, cause: Cause) -> None:
        for running in self._slots.waiting() + self._slots.running():
            self._stop(running, cause)

    def _stop(self, running: Running, cause: Cause) -> None:
        running.stop(cause)
        if running.task is None:
            self._end(running, _outcome_of_stop(running))

    async def _run(self, running: Running) -> None:
        if self._lease.is_over:
            running.note(Cause.LEASE)
        if running.cause is not Cause.NONE:
            self._end(running, _outcome_of_stop(running))
            return
        said = await self._execute(running)
        if self._lease.is_over:
            running.note(Cause.LEASE)
        if said is not None and not _may_say(running, said):
            running.metrics, running.used, said = said.metrics, said.used, None
        self._end(running, said or _outcome_of_stop(running))

    async def _execute(self, running: Running) -> OutcomeBody | None:
        """What the executor said; None when it was stopped before it said anything."""
        assignment = running.assignment
        running.started_at = self._clock.monotonic()
        self._on_event(
            AgentEvent.EXECUTION_STARTED,
            {"task": assignment.task, "execution": assignment.execution, "session": running.session},
        )
        self._news.schedule_sync(within_s=START_TOLD_S)
        timer = asyncio.get_running_loop().call_later(assignment.timeout_s, running.stop, Cause.TIMEOUT)
        try:
            return bounded(await self._executor.run(assignment), assignment)
        except asyncio.CancelledError as exc:
            if running.cause is not Cause.NONE:
                if isinstance(exc, Stopped):
                    running.metrics, running.used = bounded_metrics(exc.metrics), exc.used
                return None
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return failed(assignment, "the executor cancelled itself")
        except Exception as exc:
            return failed(assignment, f"{type(exc).__name__}: {exc}")
        finally:
            timer.cancel()

    def _end(self, running: Running, outcome: OutcomeBody | None) -> None:
        self._slots.remove(running)
        if self._is_closed:
            return
        assignment = running.assignment
        self._settle(assignment.task, assignment.execution, outcome, running)
        self.fill()

    def _settle(self, task: int, execution: int, outcome: OutcomeBody | None, running: Running | None = None) -> None:
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
            # A slot is back that the masters did not count.
            self._news.schedule_sync(within_s=SLOT_GATHER_S)


def _may_say(running: Running, said: OutcomeBody) -> bool:
    """Whether the executor's word counts.

    A recall or a drain only asks to stop: what was complete by then is complete. In all other cases it is too late.
    """
    if running.cause is Cause.NONE:
        return True
    return said.end == End.COMPLETED and running.cause <= Cause.RECALL


def _outcome_of_stop(running: Running) -> OutcomeBody | None:
    assignment = running.assignment
    end, error, message = End.STOPPED, 0, ""
    match running.cause:
        case Cause.ABANDON:
            return None
        case Cause.TIMEOUT:
            end, error = End.TIMED_OUT, int(ErrorClass.TIMEOUT)
            message = f"stopped after its timeout of {assignment.timeout_s} s"
        case Cause.LEASE:
            message = "stopped by its node, which could not renew its lease"
        case Cause.RECALL:
            message = f"recalled: {running.recall.word}"
        case Cause.HAND_BACK:
            end, message = End.RETURNED, "handed back by a draining node"
        case Cause.NONE:
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
