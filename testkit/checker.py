"""The history checker: it tests the invariants that must hold after every fault, once the installation is quiet.

Every check uses what was observed from outside and the final rows of the store, and never calls the code under test.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple

from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId, execution_text, group_text, node_text, task_text
from crawlfleet.model.status import ExecutionStatus, TaskStatus
from testkit.figure_recount import execution_differences, inner_differences
from testkit.history import (
    Assigned,
    CancelAnswered,
    Ended,
    Fault,
    FaultInjected,
    FinalState,
    History,
    NodeKilled,
    OutcomeAccepted,
    RetryAnswered,
    Started,
    SubmitAnswered,
    SubmitRefused,
    SubmitSent,
)
from testkit.recovery import elections, reassignments
from testkit.violations import Invariant, Limits, Violation

DEATHS_OF_POISON = 3
_COSTS_A_RETRY = (ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT)


def check(history: History, final: FinalState, limits: Limits = Limits()) -> list[Violation]:
    """Return every violation, one line each; empty when all invariants hold."""
    return [
        *_none_lost(history, final),
        *_whole_or_absent(history, final),
        *_one_accepted(history, final),
        *_executions_kept(history, final),
        *_one_at_a_time(history, limits),
        *_cancel_is_kept(history, final),
        *_retries_bounded(final),
        *_given_back(final),
        *_counters(final),
        *reassignments(history, final, limits),
        *elections(history, final, limits),
    ]


def _none_lost(history: History, final: FinalState) -> Iterator[Violation]:
    for answer in history.of(SubmitAnswered):
        for task in answer.tasks:
            if task not in final.tasks:
                yield _lost_violation(f"{task_text(task)} of batch {answer.batch} was answered and is gone", answer.at)
    for task, state in final.tasks.items():
        if not state.status.is_final and not state.why:
            yield _lost_violation(f"{task_text(task)} is {state.status.word} and cannot say why", final.at)
    for retry in history.of(RetryAnswered):
        reopened = final.tasks.get(retry.task)
        if reopened is None or reopened.round < retry.round:
            have = "gone" if reopened is None else f"in round {reopened.round}"
            yield _lost_violation(f"{task_text(retry.task)} was answered round {retry.round} and is {have}", retry.at)


def _whole_or_absent(history: History, final: FinalState) -> Iterator[Violation]:
    answers = {answer.batch: answer for answer in history.of(SubmitAnswered)}
    sends = Counter(sent.batch for sent in history.of(SubmitSent))
    refusals = Counter(refusal.batch for refusal in history.of(SubmitRefused))
    for batch, sent in {sent.batch: sent for sent in history.of(SubmitSent)}.items():
        stored = final.batches.get(batch, ())
        answer = answers.get(batch)
        if answer is not None:
            if extra := sorted(set(stored) - set(answer.tasks)):
                yield Violation(
                    Invariant.WHOLE_OR_ABSENT,
                    f"batch {batch} has tasks no answer named: {_tasks(extra)}",
                    answer.at,
                )
        elif stored and refusals[batch] >= sends[batch]:
            yield Violation(Invariant.WHOLE_OR_ABSENT, f"batch {batch} was refused and left {_tasks(stored)}", sent.at)
        elif len(stored) not in {0, sent.size}:
            yield Violation(
                Invariant.WHOLE_OR_ABSENT,
                f"batch {batch} was not answered and has {len(stored)} of {sent.size} tasks",
                sent.at,
            )


def _one_accepted(history: History, final: FinalState) -> Iterator[Violation]:
    accepted: dict[tuple[TaskId, int], list[OutcomeAccepted]] = defaultdict(list)
    for outcome in history.of(OutcomeAccepted):
        if outcome.status.is_final:
            accepted[outcome.task, outcome.round].append(outcome)
    for (task, round_), outcomes in accepted.items():
        words = [f"{outcome.status.word} by {execution_text(outcome.execution)}" for outcome in outcomes]
        state = final.tasks.get(task)
        if len(outcomes) > 1:
            yield _twice_violation(
                f"{task_text(task)} round {round_} became final twice: {', '.join(words)}", outcomes[1].at
            )
        elif state and state.round == round_ and state.status is not outcomes[0].status:
            yield _twice_violation(
                f"{task_text(task)} round {round_} was {words[0]} and is {state.status.word}", outcomes[0].at
            )
    for (task, round_), executions in _rounds(final.executions).items():
        completed = [execution for execution in executions if execution.status is ExecutionStatus.COMPLETED]
        state = final.tasks.get(task)
        if len(completed) > 1:
            names = ", ".join(execution_text(execution.id) for execution in completed)
            yield _twice_violation(f"{task_text(task)} round {round_} was completed by {names}")
        if completed and state and state.round == round_ and state.status is not TaskStatus.COMPLETED:
            name = execution_text(completed[0].id)
            yield _twice_violation(
                f"{task_text(task)} round {round_} was completed by {name} and is {state.status.word}"
            )
    for task, living in Counter(execution.task for execution in final.executions if execution.status is None).items():
        state = final.tasks.get(task)
        if living > 1 or (state and state.status.is_final):
            yield _twice_violation(f"{task_text(task)} has {living} living executions", final.at)


def _executions_kept(history: History, final: FinalState) -> Iterator[Violation]:
    execution_ids = {execution.id for execution in final.executions}
    for assigned in history.of(Assigned):
        if assigned.execution not in execution_ids and assigned.task in final.tasks:
            name = execution_text(assigned.execution)
            yield _twice_violation(
                f"{task_text(assigned.task)} was assigned as {name}, of which nothing is kept", assigned.at
            )


class _Span(NamedTuple):
    """A span in which an execution really ran on a node."""

    start: int
    end: float
    execution: ExecutionId
    node: NodeId


def _one_at_a_time(history: History, limits: Limits) -> Iterator[Violation]:
    begun: dict[ExecutionId, Started] = {}
    for start in history.of(Started):
        if start.execution in begun:
            yield _twice_violation(
                f"{execution_text(start.execution)} of {task_text(start.task)} started twice", start.at
            )
        begun.setdefault(start.execution, start)
    spans: dict[TaskId, list[_Span]] = defaultdict(list)
    for start, parts in zip(begun.values(), _spans(history, begun.values(), limits), strict=True):
        spans[start.task] += parts
    for task, of_task in spans.items():
        latest: _Span | None = None
        for span in sorted(of_task):
            if latest is not None and span.start < latest.end and span.execution != latest.execution:
                yield _twice_violation(
                    f"{task_text(task)} ran as {execution_text(latest.execution)} on {node_text(latest.node)} and as "
                    f"{execution_text(span.execution)} on {node_text(span.node)}",
                    span.start,
                )
            if latest is None or span.end > latest.end:
                latest = span


def _spans(history: History, starts: Iterable[Started], limits: Limits) -> Iterator[list[_Span]]:
    """Yield the spans in which work really ran: until it ended or its node was killed, without pauses of its node."""
    ended = {end.execution: end.at for end in reversed(history.of(Ended))}
    kills: dict[NodeId, list[int]] = defaultdict(list)
    for kill in history.of(NodeKilled):
        kills[kill.node].append(kill.at)
    pauses: dict[int | str, list[FaultInjected]] = defaultdict(list)
    for fault in history.of(FaultInjected):
        if fault.kind is Fault.NODE_PAUSE:
            pauses[fault.target].append(fault)
    for start in starts:
        killed = min((killed_at for killed_at in kills[start.node] if killed_at >= start.at), default=inf)
        spans = [_Span(start.at, min(ended.get(start.execution, inf), killed), start.execution, start.node)]
        for pause in pauses[start.node]:
            spans = [part for span in spans for part in _without(span, pause.at, pause.until + limits.resume_grace_ms)]
        yield spans


def _without(span: _Span, start: int, end: int) -> list[_Span]:
    parts = [span._replace(end=min(span.end, start)), span._replace(start=max(span.start, end))]
    return [part for part in parts if part.start < part.end]


def _cancel_is_kept(history: History, final: FinalState) -> Iterator[Violation]:
    rounds = {execution.id: execution.round for execution in final.executions}
    rounds |= {execution.execution: execution.round for execution in history.of(Assigned)}
    starts: dict[tuple[TaskId, int | None], list[Started]] = defaultdict(list)
    for start in history.of(Started):
        starts[start.task, rounds.get(start.execution)].append(start)
    for cancel in history.of(CancelAnswered):
        if not cancel.is_final:
            continue
        for start in starts[cancel.task, cancel.round]:
            if start.at > cancel.at:
                yield _twice_violation(
                    f"{task_text(cancel.task)} was cancelled at {cancel.at / 1000:.3f} s and started as "
                    f"{execution_text(start.execution)} on {node_text(start.node)}",
                    start.at,
                )
        state = final.tasks.get(cancel.task)
        if state and state.round == cancel.round and state.status is not TaskStatus.CANCELLED:
            yield _twice_violation(
                f"{task_text(cancel.task)} was answered cancelled and is {state.status.word}", cancel.at
            )


def _retries_bounded(final: FinalState) -> Iterator[Violation]:
    rounds = _rounds(final.executions)
    for task, state in final.tasks.items():
        if state.retries > state.max_retries:
            yield _over(f"{task_text(task)} used {state.retries} of {state.max_retries} retries")
        if state.deaths >= DEATHS_OF_POISON and not (state.status is TaskStatus.FAILED and state.is_dead_letter):
            yield _over(f"{task_text(task)} died alone {state.deaths} times and is {state.status.word}, no dead letter")
        if state.deaths > DEATHS_OF_POISON:
            yield _over(f"{task_text(task)} died alone {state.deaths} times: poison was run again")
        executions = rounds.get((task, state.round), [])
        used = max([state.retries, *(execution.retry for execution in executions)])
        own = sum(execution.status in _COSTS_A_RETRY for execution in executions)
        if used > own:
            words = [
                f"{execution_text(execution.id)} {execution.status.word if execution.status else 'lives'}"
                for execution in executions
            ]
            ends = ", ".join(words)
            yield _over(f"{task_text(task)} used {used} retries for {own} failures of its own: {ends}")


def _given_back(final: FinalState) -> Iterator[Violation]:
    for node, held in final.slots.items():
        if held.store or held.agent:
            detail = f"{node_text(node)} holds {held.store} slots by the store and {held.agent} by its agent"
            yield Violation(Invariant.ALL_GIVEN_BACK, detail, final.at)
    for name, amount in final.reservations.items():
        if amount:
            yield Violation(Invariant.ALL_GIVEN_BACK, f"{name} is still {amount:g}", final.at)


def _counters(final: FinalState) -> Iterator[Violation]:
    for status in TaskStatus:
        counted, rows = final.counters.get(status, 0), final.rows.get(status, 0)
        if counted != rows:
            yield Violation(
                Invariant.COUNTERS_TRUE, f"{status.word}: the counter says {counted}, the rows {rows}", final.at
            )
    if final.figures is not None:
        for detail in (
            *execution_differences(final.figures, final.executions),
            *inner_differences(final.figures, final.rows),
        ):
            yield Violation(Invariant.COUNTERS_TRUE, detail, final.at)
    for group, state in final.groups.items():
        if state.counted != state.rows:
            detail = f"{group_text(group)}: the counters say {tuple(state.counted)}, the rows {tuple(state.rows)}"
            yield Violation(Invariant.COUNTERS_TRUE, detail, final.at)
        if state.is_finished and state.rows.open:
            detail = f"{group_text(group)} is finished with {state.rows.open} open members"
            yield Violation(Invariant.COUNTERS_TRUE, detail, final.at)


def _rounds(executions: Iterable[ExecutionRecord]) -> dict[tuple[TaskId, int], list[ExecutionRecord]]:
    rounds: dict[tuple[TaskId, int], list[ExecutionRecord]] = defaultdict(list)
    for execution in executions:
        rounds[execution.task, execution.round].append(execution)
    return rounds


def _lost_violation(detail: str, at: int) -> Violation:
    return Violation(Invariant.NONE_LOST, detail, at)


def _twice_violation(detail: str, at: int | None = None) -> Violation:
    return Violation(Invariant.ONE_OUTCOME, detail, at)


def _over(detail: str) -> Violation:
    return Violation(Invariant.RETRIES_BOUNDED, detail)


def _tasks(tasks: Iterable[TaskId]) -> str:
    return ", ".join(task_text(task) for task in tasks)
