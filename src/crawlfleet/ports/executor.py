"""The protocol by which an agent runs executions."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from crawlfleet.wire.sync import AssignmentBody, OutcomeBody, UsedBody

STOP_WITHIN_S = 1.5
"""Time limit for stopping an execution. It is less than the lease guard's margin: work that outlives its lease could
run beside its successor."""


class Stopped(asyncio.CancelledError):
    """A cancellation that has taken effect, with the progress of the work until then."""

    def __init__(self, metrics: msgspec.Raw, used: UsedBody | None = None) -> None:
        super().__init__()
        self.metrics = metrics
        self.used = used


class Executor(Protocol):
    """Runs the executions that a node was given."""

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        """Run one execution to its end and return its outcome.

        Cancelling the coroutine stops the work: when the cancellation has taken effect, nothing of it runs any more.
        That must be within `STOP_WITHIN_S`, by force if need be: the lease guard counts on it. `Stopped` carries what
        the work had reached.
        """
        ...
