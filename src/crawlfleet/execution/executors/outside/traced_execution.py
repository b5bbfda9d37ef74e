"""Runs an execution inside a span of its own, with its requests to target hosts as spans below it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from crawlfleet.execution.executors.outside.running_execution import RunningExecution
from crawlfleet.model.execution import End
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.model.status import ErrorClass
from crawlfleet.observe.tracing import FetchFacts, Tracing
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody


class MakeExecution(Protocol):
    def __call__(self, assignment: AssignmentBody, traceparent: str = "") -> RunningExecution: ...


async def run_traced(
    tracing: Tracing,
    assignment: AssignmentBody,
    run: Callable[[RunningExecution], Awaitable[OutcomeBody]],
    make_execution: MakeExecution,
) -> OutcomeBody:
    with tracing.start_process(
        assignment.task_type,
        task_text(assignment.task),
        execution_text(assignment.execution),
        assignment.retry,
        assignment.traceparent,
    ) as span:
        execution = make_execution(assignment, span.traceparent)
        try:
            outcome = await run(execution)
        finally:
            fetches = [
                FetchFacts(each.url, each.began_ns, each.ended_ns, each.status, each.error)
                for each in execution.fetches
            ]
            tracing.add_fetches(span, fetches)
        if outcome.end != End.COMPLETED:
            span.fail(_error_name(outcome), outcome.message)
        return outcome


def _error_name(outcome: OutcomeBody) -> str:
    return ErrorClass(outcome.error).word if outcome.error else End(outcome.end).name.lower()
