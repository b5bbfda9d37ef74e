"""How an agent runs work."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from crawlfleet.wire.sync import AssignmentBody, OutcomeBody, UsedBody

STOP_WITHIN_S = 1.5
"""Less than the lease guard's margin: work that outlives its lease could meet its successor."""


class Stopped(asyncio.CancelledError):
    """A cancellation that came through, and how far the work was by then."""

    def __init__(self, metrics: msgspec.Raw, used: UsedBody | None = None) -> None:
        super().__init__()
        self.metrics = metrics
        self.used = used


class Executor(Protocol):
    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        """Runs one execution to its end and tells how it ended.

        Cancelling the coroutine stops the work: when the cancellation has come through, nothing of it runs any more.
        That must be within `STOP_WITHIN_S`, by force if need be: the lease guard counts on it. `Stopped` tells more.
        """
        ...
