"""Small histories, for the tests of the checker."""

from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.status import ExecutionStatus, TaskStatus
from crawlfleet.testing.history import FinalState, History, Record, TaskState
from crawlfleet.testing.violations import Invariant, Violation

T1, T2 = 0x11, 0x12
E1, E2, E3 = 0x21, 0x22, 0x23
N1, N2 = 0x31, 0x32
END = 100_000

DONE = TaskState(TaskStatus.COMPLETED)


def history(*records: Record) -> History:
    made = History()
    for record in records:
        made.add(record)
    return made


def execution(
    number: int, status: ExecutionStatus | None, *, task: int = T1, round_: int = 1, retry: int = 0, node: int = N1
) -> ExecutionRecord:
    return ExecutionRecord(number, task, round_, retry, node, 1, status, 0, None, None, None, None, None)


def final(task: TaskState | None = None, *executions: ExecutionRecord) -> FinalState:
    return FinalState(END, tasks={T1: task} if task else {}, executions=executions)


def only(violations: list[Violation], invariant: Invariant) -> Violation:
    assert [violation.invariant for violation in violations] == [invariant], [str(one) for one in violations]
    assert "\n" not in str(violations[0])
    return violations[0]
