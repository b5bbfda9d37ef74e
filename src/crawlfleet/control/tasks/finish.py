"""Applies the outcomes that nodes report, in one transaction for many nodes.

A completed execution needs no decision and takes a shorter path; the others are decided by
`scheduling.tasks.task_state_machine` on the locked row. An outcome is acknowledged whether it was taken or found stale:
in both cases the node is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

import msgspec

from crawlfleet.control.support.batching import Batcher
from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.model import limits
from crawlfleet.model.daily_quota import Amounts
from crawlfleet.model.execution import End, Failure, Outcome, ParkCause, ParkRequest
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant, ms
from crawlfleet.model.product import Product
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.queue_store import ReadyTaskStore
from crawlfleet.ports.task_store import TaskStore
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.wire.products import decode_products
from crawlfleet.wire.sync import OutcomeBody
from crawlfleet.wire.tasks import storage_problem

_MAX_BATCH = 4_000
_LONGEST_MS = ms(limits.TIMEOUT_S_MAX)
_TOO_LARGE = b'{"truncated":true}'
_ENDS = {int(end): end for end in End}
_ERRORS = {int(error): error for error in ErrorClass}
_CAUSES = {int(cause): cause for cause in ParkCause}

Answer = TaskStatus | Refusal
"""The new status of the task, or why the outcome was not taken."""


class _Store(TaskStore, ReadyTaskStore, Protocol):
    pass


class Finish:
    def __init__(self, *, store: _Store, broker: Broker, clock: Clock, rng: Random) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._rng = rng
        self._batcher: Batcher[Outcome, Answer] = Batcher(self._flush_outcomes, max_weight=_MAX_BATCH)

    async def finish_reported(self, node: NodeId, bodies: Sequence[OutcomeBody]) -> Sequence[Answer]:
        """Apply the outcomes, and return one answer per outcome, in order."""
        now = self._clock.now()
        outcomes = [_read_outcome(node, body, now) for body in bodies]
        readable = [outcome for outcome in outcomes if isinstance(outcome, Outcome)]
        answers = iter(await self._batcher.put_items(readable))
        return [next(answers) if isinstance(outcome, Outcome) else outcome for outcome in outcomes]

    async def finish_outcomes(self, outcomes: Sequence[Outcome]) -> Sequence[Answer]:
        return await self._batcher.put_items(outcomes)

    async def _flush_outcomes(self, outcomes: list[Outcome]) -> Sequence[Answer]:
        tasks = [outcome.task for outcome in outcomes]
        if len(set(tasks)) == len(outcomes):
            applied = await self._apply_outcomes(outcomes)
            return [applied.get(task, _STALE) for task in tasks]
        answers: dict[int, Answer] = {}
        left = list(enumerate(outcomes))
        while left:
            # One outcome per task at a time: of several for one task, each gets an answer of its own.
            layer: dict[TaskId, tuple[int, Outcome]] = {}
            for position, outcome in left:
                layer.setdefault(outcome.task, (position, outcome))
            applied = await self._apply_outcomes([outcome for _, outcome in layer.values()])
            answers.update((position, applied.get(task, _STALE)) for task, (position, _) in layer.items())
            left = [entry for entry in left if entry[0] not in answers]
        return [answers[position] for position in range(len(outcomes))]

    async def _apply_outcomes(self, outcomes: Sequence[Outcome]) -> dict[TaskId, Answer]:
        now = self._clock.now()
        completed = [outcome for outcome in outcomes if outcome.end is End.COMPLETED]
        answers: dict[TaskId, Answer] = {}
        if completed:
            applied = await self._store.complete_executions(completed, now)
            answers.update(applied.refused)
            answers.update(applied.after)
            await publish_hints(self._broker, applied)
        if len(completed) < len(outcomes):
            others = {outcome.task: outcome for outcome in outcomes if outcome.end is not End.COMPLETED}
            parked = await self._store.parked_times([task for task, outcome in others.items() if outcome.park])
            applied = await self._store.change_tasks(
                list(others), task_state_machine.finish_execution(others, now, self._rng, parked), now
            )
            # A task that has ended has no live execution: a node that still reports one is stale, as on the shorter
            # path.
            answers.update(
                (task, _STALE if refusal.code is Code.ALREADY_FINAL else refusal)
                for task, refusal in applied.refused.items()
            )
            answers.update(applied.after)
            await publish_hints(self._broker, applied)
        return answers


_STALE = Refusal(Code.STALE_EXECUTION, "not the live execution of the task")


def _read_outcome(node: NodeId, body: OutcomeBody, now: Instant) -> Outcome | Refusal:
    end = _ENDS.get(body.end)
    error = _ERRORS.get(body.error)
    if end is None or (error is None and body.error):
        return Refusal(Code.INVALID_INPUT, f"no such end or class of error: {body.end}, {body.error}", "outcomes")
    failure = None
    if error is not None:
        message = body.message[: limits.MESSAGE_CHARS]
        failure = Failure(error, message if not storage_problem(message) else ascii(message), body.is_permanent)
    if not is_storable(body.task, body.execution):
        return Refusal(Code.INVALID_INPUT, "no id of a task or no id of an execution", "outcomes")
    started_at = None if body.started_ms_ago is None else started_before(now, body.started_ms_ago)
    result = _cap_size(body.result, limits.RESULT_BYTES)
    products: Sequence[Product] = ()
    if body.products and end is End.COMPLETED:
        try:
            products = decode_products(body.products)
        except ValueError as exc:
            # The report of a faulty node: an end that it cannot express must not count as completed.
            end, failure = End.FAILED, Failure(ErrorClass.INTERNAL, ascii(str(exc))[: limits.MESSAGE_CHARS], True)
    return Outcome(
        node,
        body.task,
        body.execution,
        end,
        failure,
        result,
        _cap_size(body.metrics, limits.METRICS_BYTES),
        started_at,
        _bounded_park(body) if end is End.RETURNED and body.again_ms > 0 else None,
        None if body.used is None else Amounts(body.used.pages, body.used.bytes),
        products,
    )


def _bounded_park(body: OutcomeBody) -> ParkRequest:
    """Return the parking of the task within bounds: a faulty node must not park a task for ever, or under a name that
    no host has."""
    cause, subject = _CAUSES.get(body.cause, ParkCause.LATER), body.subject[: limits.HOST_CHARS]
    if cause is ParkCause.LATER or not subject or storage_problem(subject):
        cause, subject = ParkCause.LATER, ""
    return ParkRequest(min(body.again_ms, limits.PARK_MS_MAX), cause, subject)


def is_storable(*numbers: int) -> bool:
    """Return whether databases can hold these numbers: one that is too large must be refused before it fails a whole
    batch."""
    return min(numbers) >= 0 and max(numbers) < 1 << limits.INTEGER_BITS


def started_before(now: Instant, ms_ago: int) -> Instant | None:
    """Return the start instant, or None for a span from the future or longer than anything may run: of the report of a
    faulty node only the outcome counts."""
    return now - ms_ago if 0 <= ms_ago <= _LONGEST_MS else None


def _cap_size(raw: msgspec.Raw, max_bytes: int) -> bytes | None:
    value = bytes(raw)
    if value == b"null":
        return None
    return value if len(value) <= max_bytes else _TOO_LARGE
