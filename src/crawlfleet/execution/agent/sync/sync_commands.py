"""Commands in the answers to syncs, each applied once however often it arrives.

Answers may be lost, come twice, or come late, after the answer to a newer sync. Executions have ids that never repeat,
so each command can be checked against the executions that are here and those that were here.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.execution.agent.config import Config
from crawlfleet.execution.agent.drain import NodeDrain
from crawlfleet.execution.agent.work.lease_guard import NodeLease
from crawlfleet.execution.agent.work.outcomes import Outcomes
from crawlfleet.execution.agent.work.runner import Runner
from crawlfleet.execution.agent.work.slots import Slots
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.budget.quota_slices import QuotaSlices
from crawlfleet.model.execution import End
from crawlfleet.model.status import Recall
from crawlfleet.wire.sync import AssignmentBody, RecallBody, SyncDown

MAX_TOMBSTONES = 50_000
"""Far more executions than a node ends while one call is under way."""


class Tombstones:
    """Executions of this session that are over and forgotten, each with the number of the newest sync sent by then."""

    def __init__(self, limit: int = MAX_TOMBSTONES) -> None:
        self._limit = limit
        self._numbers: dict[int, int] = {}

    def __contains__(self, execution: int) -> bool:
        return execution in self._numbers

    def add(self, execution: int, number: int) -> None:
        self._numbers.pop(execution, None)
        self._numbers[execution] = number
        if len(self._numbers) > self._limit:
            del self._numbers[next(iter(self._numbers))]

    def ended_before_sync(self, number: int, execution: int) -> bool:
        """Whether the execution was over before the sync of this number was sent."""
        return self._numbers[execution] < number

    def clear(self) -> None:
        self._numbers.clear()


def _recall_reason(recall: RecallBody) -> Recall:
    """The reason of a recall; NONE for one that only a newer master knows: the execution is stopped all the same."""
    try:
        return Recall(recall.reason)
    except ValueError:
        return Recall.NONE


class SyncCommands:
    """Applies the commands of sync answers to the parts of the agent."""

    def __init__(
        self,
        runner: Runner,
        slots: Slots,
        outcomes: Outcomes,
        *,
        lease: NodeLease,
        drain: NodeDrain,
        config: Config,
        grants: HostGrants,
        slices: QuotaSlices,
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

    def start_session(self) -> None:
        """Forget the commands of the session before."""
        self._tombstones.clear()
        self._settings_number = 0

    def drop_acknowledged(self, executions: Sequence[int], newest: int) -> bool:
        dropped = self._outcomes.drop(executions)
        for execution in dropped:
            self._tombstones.add(execution, newest)
        return bool(dropped)

    def apply_answer(self, answer: SyncDown, number: int, newest: int) -> bool:
        """Apply the answer to sync `number`, when `newest` is the last one sent; True when it brought anything new."""
        # What is assigned in the same answer runs under it already.
        is_new = [
            self._config.apply_config(answer.config),
            self._grants.apply_grants(answer.grants),
            self._slices.apply_slices(answer.slices),
        ]
        is_new += [self._stop_execution(execution, newest) for execution in answer.stops]
        is_new += [self._recall_execution(recall, number) for recall in answer.recalls]
        is_new.append(self._apply_drain_and_slots(answer, number, newest))
        # Assignments come last: one that is recalled in the same answer must not start.
        is_new += [self._accept_assignment(assignment, number) for assignment in answer.assignments]
        return any(is_new)

    def _stop_execution(self, execution: int, newest: int) -> bool:
        is_new = self._runner.abandon_execution(execution)
        is_new = bool(self._outcomes.drop([execution])) or is_new
        self._tombstones.add(execution, newest)
        return is_new

    def _recall_execution(self, recall: RecallBody, number: int) -> bool:
        execution = recall.execution
        if execution in self._slots:
            return self._runner.recall_execution(execution, _recall_reason(recall))
        if not self._awaits_outcome(execution, number):
            return False
        # Assigned, but that answer was lost: nothing to stop, and it must not start when the answer comes late.
        self._runner.report_unstarted(recall.task, execution, End.STOPPED, "recalled before it came to the node")
        return True

    def _apply_drain_and_slots(self, answer: SyncDown, number: int, newest: int) -> bool:
        """Apply the drain and the number of slots. Each answer carries both, so an older answer is ignored.

        So is an empty answer, which carries neither: a pending call that a newer call overtook is answered empty.
        """
        is_empty = answer == SyncDown(answer.verdict, masters=answer.masters)
        if number < self._settings_number or (number < newest and is_empty):
            return False
        self._settings_number = number
        is_new = self._drain.apply_order(None if answer.drain_ms is None else answer.drain_ms / 1000)
        if self._slots.resize(answer.slots):
            self._runner.fill_slots()
            is_new = True
        return is_new

    def _accept_assignment(self, assignment: AssignmentBody, number: int) -> bool:
        execution = assignment.execution
        if execution in self._slots or not self._awaits_outcome(execution, number):
            return False
        if execution in self._tombstones:
            self._runner.report_unstarted(assignment.task, execution, End.STOPPED, "was over on its node before")
        elif self._lease.is_over:
            # The answer is older than a lease. If the session lives after all, the next answer brings it again.
            return False
        elif self._drain.is_draining:
            self._runner.report_unstarted(assignment.task, execution, End.RETURNED, "the node is draining")
        elif not self._slots.acceptable_count:
            self._runner.report_unstarted(assignment.task, execution, End.RETURNED, "the node has no free slot")
        else:
            self._runner.accept_assignment(assignment)
        return True

    def _awaits_outcome(self, execution: int, number: int) -> bool:
        """Whether the master still waits for an outcome that is not under way.

        For an execution that is over here, only the answer to a sync sent afterwards shows this: an older answer was
        made before the master knew of its end.
        """
        if execution in self._outcomes:
            return False
        return execution not in self._tombstones or self._tombstones.ended_before_sync(number, execution)
