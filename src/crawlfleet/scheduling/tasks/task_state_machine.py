"""The state machine of a task: its transitions, as pure functions that the store applies inside its transaction.

Every function here returns a `DecideTransition`: given the locked row it returns the next transition, or refuses.
Fences come first: a report on an execution that is not the live one, or on another node's, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from crawlfleet.model.event import Kind
from crawlfleet.model.execution import End, Failure, Outcome
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId, execution_text
from crawlfleet.model.instants import Instant, ms
from crawlfleet.model.queue import LaneId
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Recall, TaskStatus
from crawlfleet.model.task import DecideTransition, LiveTask, ParkedTask, RetryPolicy, TaskTransition
from crawlfleet.scheduling.tasks.retry import backoff_ms, next_attempt_at

POISON_DEATHS = 3
ISOLATION_LOSSES = 2
DEADLINE_GRACE_S = 10.0
"""Grace after the timeout: the node stops an execution at its timeout; the master only acts when the node did not."""
START_GRACE_S = 60.0
MAX_PARKINGS = 100
"""Limit on parkings in a round: after that, what the task waits for counts as unavailable, which is a failure."""
PARK_SPREAD_MS = (1_000, 60_000)


class ExecutionStart(NamedTuple):
    """A node's report that an execution has started."""

    node: NodeId
    execution: ExecutionId
    started_at: Instant


def deadline_at(timeout_s: int, started_at: Instant) -> Instant:
    return started_at + ms(timeout_s + DEADLINE_GRACE_S)


def needs_own_process(row: LiveTask) -> bool:
    """Whether the task's next execution gets a process of its own."""
    return row.losses >= ISOLATION_LOSSES or row.deaths > 0


def cancel_task(reason: str) -> DecideTransition:
    """Cancel a task: final at once while no node has it, a recall otherwise."""

    def decide(row: LiveTask, _policy: RetryPolicy) -> TaskTransition | Refusal:
        if row.status.is_held:
            return TaskTransition(row._replace(recall=Recall.CANCEL), Kind.TASK_RECALLED, reason=reason)
        return TaskTransition(row.without_node(TaskStatus.CANCELLED), Kind.TASK_CANCELLED, reason=reason)

    return decide


def recall_execution(kind: Recall, reason: str) -> DecideTransition:
    """Recall an execution: ask the node to stop it. A cancel is never weakened into another kind."""

    def decide(row: LiveTask, _policy: RetryPolicy) -> TaskTransition | Refusal:
        if not row.status.is_held:
            return _refuse_not_held(row)
        if row.recall is not Recall.NONE:
            return TaskTransition(row, Kind.TASK_RECALLED)
        return TaskTransition(row._replace(recall=kind), Kind.TASK_RECALLED, reason=reason)

    return decide


def move_executions(executions: Mapping[TaskId, ExecutionId], reason: str) -> DecideTransition:
    """Recall these executions so that their tasks run elsewhere; later executions of the tasks go on."""
    recall = recall_execution(Recall.MOVE, reason)

    def decide(row: LiveTask, policy: RetryPolicy) -> TaskTransition | Refusal:
        if row.execution != executions[row.id]:
            return Refusal(Code.STALE_EXECUTION, "has another execution by now")
        if row.recall is not Recall.NONE:
            return Refusal(Code.NOT_READY, "was recalled before")
        return recall(row, policy)

    return decide


def recall_overdue(now: Instant) -> DecideTransition:
    """Recall an execution that is past its hard deadline, judged again on the locked row."""
    recall = recall_execution(Recall.DEADLINE, "deadline passed")

    def decide(row: LiveTask, policy: RetryPolicy) -> TaskTransition | Refusal:
        if row.deadline_at is None or row.deadline_at > now:
            return Refusal(Code.NOT_READY, "not past its deadline")
        return recall(row, policy)

    return decide


def release_due(now: Instant) -> DecideTransition:
    """waiting or retrying -> pending, when the task is due and no parent is open."""

    def decide(row: LiveTask, _policy: RetryPolicy) -> TaskTransition | Refusal:
        if row.status not in (TaskStatus.WAITING, TaskStatus.RETRYING):
            return Refusal(Code.NOT_READY, f"is {row.status.word}")
        if row.waits or (row.due_at is not None and row.due_at > now):
            return Refusal(Code.NOT_READY, "its time has not come")
        return TaskTransition(row._replace(status=TaskStatus.PENDING, due_at=None), Kind.TASK_READY)

    return decide


def unpark_task(row: LiveTask, _policy: RetryPolicy) -> TaskTransition | Refusal:
    """waiting -> pending before its time: the cause of the parking is over already."""
    if row.status is not TaskStatus.WAITING or row.waits or row.due_at is None:
        return Refusal(Code.NOT_READY, "is not parked")
    return TaskTransition(row._replace(status=TaskStatus.PENDING, due_at=None), Kind.TASK_READY)


def count_completed_parents(now: Instant, parents: int) -> DecideTransition:
    """Count parents of a waiting task that completed; pending when none is left and the task is due."""

    def decide(row: LiveTask, _policy: RetryPolicy) -> TaskTransition | Refusal:
        waiting = row._replace(waits=max(0, row.waits - parents))
        if waiting.waits == 0 and (waiting.due_at is None or waiting.due_at <= now):
            return TaskTransition(waiting._replace(status=TaskStatus.PENDING, due_at=None), Kind.TASK_READY)
        return TaskTransition(waiting, Kind.TASK_READY)

    return decide


def end_unrun(status: TaskStatus, reason: str | None, failure: Failure | None = None) -> DecideTransition:
    """End a waiting step of a flow that never ran. It is a dead letter if it has a failure of its own."""

    def decide(row: LiveTask, _policy: RetryPolicy) -> TaskTransition | Refusal:
        kind = Kind.TASK_COMPLETED if status is TaskStatus.COMPLETED else Kind.TASK_FAILED
        after = row._replace(status=status, waits=0)
        return TaskTransition(after, kind, failure=failure, reason=reason, is_dead_letter=failure is not None)

    return decide


def change_lane(lanes: Mapping[LaneId, LaneId]) -> DecideTransition:
    """Move the task to the lane of its new priority, by the lane it stands in."""

    def decide(row: LiveTask, _policy: RetryPolicy) -> TaskTransition | Refusal:
        if row.lane not in lanes:
            return Refusal(Code.NOT_READY, "its priority was changed by somebody else meanwhile")
        return TaskTransition(row._replace(lane=lanes[row.lane]), Kind.TASK_REPRIORITIZED)

    return decide


def start_execution(starts: Mapping[TaskId, ExecutionStart]) -> DecideTransition:
    """assigned -> processing."""

    def decide(row: LiveTask, _policy: RetryPolicy) -> TaskTransition | Refusal:
        node, execution, started_at = starts[row.id]
        if refusal := _check_fence(row, node, execution):
            return refusal
        if row.status is TaskStatus.PROCESSING:
            return TaskTransition(row, Kind.TASK_STARTED)
        after = row._replace(
            status=TaskStatus.PROCESSING,
            started_at=started_at,
            deadline_at=deadline_at(row.timeout_s, started_at),
        )
        return TaskTransition(after, Kind.TASK_STARTED)

    return decide


def finish_execution(
    outcomes: Mapping[TaskId, Outcome], now: Instant, rng: Random, parked: Mapping[TaskId, int] | None = None
) -> DecideTransition:
    """Apply the outcomes that nodes reported to their tasks. `parked` has how often each was parked in its round."""
    parkings = parked or {}

    def decide(row: LiveTask, policy: RetryPolicy) -> TaskTransition | Refusal:
        outcome = outcomes[row.id]
        if refusal := _check_fence(row, outcome.node, outcome.execution):
            return refusal
        step = _apply_outcome(row, policy, outcome, parkings.get(row.id, 0), now, rng)
        started_at = row.started_at if row.started_at is not None else outcome.started_at
        after = step.after._replace(started_at=started_at) if step.after.status.is_final else step.after
        return step._replace(after=after, started_at=started_at, metrics=outcome.metrics, used=outcome.used)

    return decide


def lose_execution(reason: str, now: Instant, rng: Random) -> DecideTransition:
    """The node was lost with the execution: it costs no retry, unless the task was to end anyway."""

    def decide(row: LiveTask, policy: RetryPolicy) -> TaskTransition | Refusal:
        if not row.status.is_held:
            return _refuse_not_held(row)
        return _apply_recall(row, policy, now, rng) or _requeue(
            row, ExecutionStatus.LOST, reason, losses=row.losses + 1
        )

    return decide


def return_execution(reason: str, now: Instant, rng: Random) -> DecideTransition:
    """The node leaves in good order and returns the execution."""

    def decide(row: LiveTask, policy: RetryPolicy) -> TaskTransition | Refusal:
        if not row.status.is_held:
            return _refuse_not_held(row)
        return _apply_recall(row, policy, now, rng) or _requeue(row, ExecutionStatus.RETURNED, reason)

    return decide


def _check_fence(row: LiveTask, node: NodeId, execution: ExecutionId) -> Refusal | None:
    if row.execution != execution:
        return Refusal(Code.STALE_EXECUTION, f"{execution_text(execution)} is not the live execution")
    if row.node != node:
        return Refusal(Code.WRONG_NODE, "the execution belongs to another node")
    return None


def _refuse_not_held(row: LiveTask) -> Refusal:
    return Refusal(Code.ILLEGAL_TRANSITION, f"is {row.status.word}, on no node")


def _apply_outcome(
    row: LiveTask, policy: RetryPolicy, outcome: Outcome, parked: int, now: Instant, rng: Random
) -> TaskTransition:
    match outcome.end:
        case End.COMPLETED:
            after = row._replace(status=TaskStatus.COMPLETED)
            return TaskTransition(after, Kind.TASK_COMPLETED, ExecutionStatus.COMPLETED, result=outcome.result)
        case End.FAILED:
            failure = outcome.failure or Failure(ErrorClass.INTERNAL, "failed without saying why")
            return _apply_failure(row, policy, failure, ExecutionStatus.FAILED, now, rng)
        case End.TIMED_OUT:
            return _apply_timeout(row, policy, now, rng)
        case End.STOPPED:
            # Without a recall the node's own lease guard stopped it, which is no failure of the task.
            stopped = _apply_recall(row, policy, now, rng)
            return stopped or _requeue(row, ExecutionStatus.LOST, "stopped by the node's lease guard")
        case End.RETURNED:
            return _apply_recall(row, policy, now, rng) or _apply_return(row, policy, outcome, parked + 1, now, rng)
        case End.PROCESS_LOST:
            lost = _apply_recall(row, policy, now, rng)
            return lost or _requeue(row, ExecutionStatus.LOST, "its executor process died", losses=row.losses + 1)
        case End.DIED_ALONE:
            return _apply_recall(row, policy, now, rng) or _apply_process_death(row, policy, outcome, now, rng)


def _apply_recall(row: LiveTask, policy: RetryPolicy, now: Instant, rng: Random) -> TaskTransition | None:
    """Apply the recall that was under way to a task whose execution is over; None if there was none."""
    match row.recall:
        case Recall.NONE:
            return None
        case Recall.CANCEL:
            after = row._replace(status=TaskStatus.CANCELLED)
            return TaskTransition(
                after, Kind.TASK_CANCELLED, ExecutionStatus.CANCELLED, reason="cancelled while running"
            )
        case Recall.DEADLINE:
            return _apply_timeout(row, policy, now, rng)
        case Recall.PREEMPT:
            return _requeue(row, ExecutionStatus.PREEMPTED, "made room for a task of higher priority")
        case Recall.MOVE:
            return _requeue(row, ExecutionStatus.RETURNED, "moved to another node")


def _requeue(row: LiveTask, ended: ExecutionStatus, reason: str, *, losses: int | None = None) -> TaskTransition:
    after = row.without_node(TaskStatus.PENDING, losses=row.losses if losses is None else losses)
    return TaskTransition(after, Kind.TASK_REASSIGN, ended, reason=reason)


def _apply_return(
    row: LiveTask, policy: RetryPolicy, outcome: Outcome, times: int, now: Instant, rng: Random
) -> TaskTransition:
    park = outcome.park
    if park is None:
        return _requeue(row, ExecutionStatus.RETURNED, "handed back by its node")
    # The resource it needs is away for a known time, which is no failure of its own: no retry is spent.
    message = outcome.failure.message if outcome.failure else "handed back by its node until later"
    if times > MAX_PARKINGS:
        failure = Failure(ErrorClass.BLOCKED, f"parked {MAX_PARKINGS} times in vain, the last time because {message}")
        return _apply_failure(row, policy, failure, ExecutionStatus.FAILED, now, rng)
    until = now + park.span_ms
    after = row.without_node(TaskStatus.WAITING, due_at=until + rng.randint(0, park_spread_ms(park.span_ms)))
    parking = ParkedTask(park.cause, park.subject, until, times, message)
    return TaskTransition(after, Kind.TASK_PARKED, ExecutionStatus.PARKED, reason=message, parking=parking)


def park_spread_ms(span_ms: int) -> int:
    """The span over which tasks parked for one cause come back: longer after a longer wait, as they may be more."""
    return min(max(span_ms // 10, PARK_SPREAD_MS[0]), PARK_SPREAD_MS[1])


def _apply_timeout(row: LiveTask, policy: RetryPolicy, now: Instant, rng: Random) -> TaskTransition:
    failure = Failure(ErrorClass.TIMEOUT, f"ran longer than {row.timeout_s} s")
    return _apply_failure(row, policy, failure, ExecutionStatus.TIMEOUT, now, rng)


def _apply_failure(
    row: LiveTask, policy: RetryPolicy, failure: Failure, ended: ExecutionStatus, now: Instant, rng: Random
) -> TaskTransition:
    if row.recall is Recall.CANCEL:
        after = row._replace(status=TaskStatus.CANCELLED)
        return TaskTransition(after, Kind.TASK_CANCELLED, ended, failure, reason="cancelled while running")
    due_at = next_attempt_at(policy, failure, row.retries, now, rng)
    if due_at is not None:
        after = row.without_node(TaskStatus.RETRYING, retries=row.retries + 1, due_at=due_at)
        return TaskTransition(after, Kind.TASK_RETRYING, ended, failure, reason=failure.message)
    is_timeout = ended is ExecutionStatus.TIMEOUT
    status = TaskStatus.TIMEOUT if is_timeout else TaskStatus.FAILED
    kind = Kind.TASK_TIMEOUT if is_timeout else Kind.TASK_FAILED
    return TaskTransition(
        row._replace(status=status), kind, ended, failure, reason=failure.message, is_dead_letter=True
    )


def _apply_process_death(
    row: LiveTask, policy: RetryPolicy, outcome: Outcome, now: Instant, rng: Random
) -> TaskTransition:
    failure = outcome.failure or Failure(ErrorClass.CRASH, "its process died")
    deaths = row.deaths + 1
    if deaths >= POISON_DEATHS:
        after = row._replace(status=TaskStatus.FAILED, deaths=deaths)
        reason = f"poison: died {deaths} times alone in its process ({failure.message})"
        return TaskTransition(
            after, Kind.TASK_FAILED, ExecutionStatus.FAILED, failure, reason=reason, is_dead_letter=True
        )
    after = row.without_node(TaskStatus.RETRYING, deaths=deaths, due_at=now + backoff_ms(policy, deaths, rng))
    return TaskTransition(after, Kind.TASK_RETRYING, ExecutionStatus.FAILED, failure, reason=failure.message)
