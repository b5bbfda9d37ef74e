"""What a master's answer asks for, done once however often it is said.

Answers may be lost, come twice, or come late, after the answer to a newer sync. Executions have ids that never repeat,
so each order can be checked against what is here and what was here.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.execution.agent.config import Config
from crawlfleet.execution.agent.drain import Drain
from crawlfleet.execution.agent.work.lease_guard import Lease
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.runner import Runner
from crawlfleet.execution.agent.work.slots import Slots
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.budget.quota_slices import DaySlices
from crawlfleet.model.execution import End
from crawlfleet.model.status import Recall
from crawlfleet.wire.sync import AssignmentBody, RecallBody, SyncDown

TOMBSTONES = 50_000
"""Far more than a node ends while one call is under way."""


class Tombstones:
    """Executions of this session that are over and forgotten, each with the number of the newest sync sent by then."""

    def __init__(self, limit: int = TOMBSTONES) -> None:
        self._limit = limit
        self._numbers: dict[int, int] = {}

    def __contains__(self, execution: int) -> bool:
        return execution in self._numbers

    def add(self, execution: int, number: int) -> None:
        self._numbers.pop(execution, None)
        self._numbers[execution] = number
        if len(self._numbers) > self._limit:
            del self._numbers[next(iter(self._numbers))]

    def is_older_than(self, number: int, execution: int) -> bool:
        """It was over before the sync of this number was sent."""
        return self._numbers[execution] < number

    def clear(self) -> None:
        self._numbers.clear()


def _reason(recall: RecallBody) -> Recall:
    """A newer master may know reasons that this node does not; it stops all the same."""
    try:
        return Recall(recall.reason)
    except ValueError:
        return Recall.NONE


class Orders:
    def __init__(
        self,
        runner: Runner,
        slots: Slots,
        outcomes: Outcomes,
        *,
        lease: Lease,
        drain: Drain,
        config: Config,
        grants: HostGrants,
        slices: DaySlices,
        tombstones: Tombstones,
    ) -> None:
        self._runner = runner
        self._slots = slots
        self._outcomes = outcomes
        self._lease = lease
        self._drain = drain
        self._config = config
        self._grants = grants
        self._slices = slices
        self._tombstones = tombstones
        self._settings_number = 0

    def begin(self) -> None:
        """A new session: what the older one was told is of no interest."""
        self._tombstones.clear()
        self._settings_number = 0

    def acknowledge(self, executions: Sequence[int], newest: int) -> bool:
        dropped = self._outcomes.drop(executions)
        for execution in dropped:
            self._tombstones.add(execution, newest)
        return bool(dropped)

    def obey(self, down: SyncDown, number: int, newest: int) -> bool:
        """The answer to sync `number`, when `newest` is the last one sent. True when it brought anything new."""
        # What is assigned in the same answer runs under it already.
        is_new = [self._config.take(down.config), self._grants.take(down.grants), self._slices.take(down.slices)]
        is_new += [self._stop(execution, newest) for execution in down.stops]
        is_new += [self._recall(recall, number) for recall in down.recalls]
        is_new.append(self._settle(down, number, newest))
        # Assignments come last: one that is recalled in the same answer must not start.
        is_new += [self._assign(assignment, number) for assignment in down.assignments]
        return any(is_new)

    def _stop(self, execution: int, newest: int) -> bool:
        is_new = self._runner.abandon(execution)
        is_new = bool(self._outcomes.drop([execution])) or is_new
        self._tombstones.add(execution, newest)
        return is_new

    def _recall(self, recall: RecallBody, number: int) -> bool:
        execution = recall.execution
        if execution in self._slots:
            return self._runner.recall(execution, _reason(recall))
        if not self._is_unsettled(execution, number):
            return False
        # Assigned, but the answer that said so was lost: nothing to stop, and it must not start when it comes late.
        self._runner.settle_unstarted(recall.task, execution, End.STOPPED, "recalled before it came to the node")
        return True

    def _settle(self, down: SyncDown, number: int, newest: int) -> bool:
        """Drain and slots are said in each answer, so an old one counts for nothing.

        A parked call that a newer one overtook is answered empty, which says nothing of them either.
        """
        is_empty = down == SyncDown(down.verdict, masters=down.masters)
        if number < self._settings_number or (number < newest and is_empty):
            return False
        self._settings_number = number
        is_new = self._drain.order(None if down.drain_ms is None else down.drain_ms / 1000)
        if self._slots.resize(down.slots):
            self._runner.fill()
            is_new = True
        return is_new

    def _assign(self, assignment: AssignmentBody, number: int) -> bool:
        execution = assignment.execution
        if execution in self._slots or not self._is_unsettled(execution, number):
            return False
        if execution in self._tombstones:
            self._runner.settle_unstarted(assignment.task, execution, End.STOPPED, "was over on its node before")
        elif self._lease.is_over:
            # The answer is older than a lease. If the session lives after all, the next answer brings it again.
            return False
        elif self._drain.is_draining:
            self._runner.settle_unstarted(assignment.task, execution, End.RETURNED, "the node is draining")
        elif not self._slots.room:
            self._runner.settle_unstarted(assignment.task, execution, End.RETURNED, "the node has no free slot")
        else:
            self._runner.accept(assignment)
        return True

    def _is_unsettled(self, execution: int, number: int) -> bool:
        """Whether the master still waits for an outcome that is not under way.

        Of an execution that is over here, only an answer to a sync sent afterwards can say so: an older answer was
        made before the master had heard of its end.
        """
        if execution in self._outcomes:
            return False
        return execution not in self._tombstones or self._tombstones.is_older_than(number, execution)
