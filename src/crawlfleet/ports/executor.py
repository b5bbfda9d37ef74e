"""How an agent runs work."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.wire.sync import AssignmentBody, OutcomeBody


class Executor(Protocol):
    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        """Runs one execution to its end and tells how it ended.

        Cancelling the coroutine stops the work: when the cancellation has come through, nothing of it runs any more.
        """
        ...
