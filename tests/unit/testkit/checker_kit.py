"""Small histories, for the tests of the checker."""

from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.status import ExecutionStatus, TaskStatus
from testkit.history import FinalState, History, Record, TaskState
from testkit.violations import Invariant, Violation

TASK, TASK_B = 0x11, 0x12
EXEC, EXEC_B, EXEC_C = 0x21, 0x22, 0x23
NODE, NODE_B = 0x31, 0x32
END = 100_000

DONE = TaskState(TaskStatus.COMPLETED)


def history(*records: Record) -> History:
    made = History()
    for record in records:
        made.add(record)
    return made


def execution(
    number: int, status: ExecutionStatus | None, *, task: int = TASK, round_: int = 1, retry: int = 0, node: int = NODE
) -> ExecutionRecord:
    return ExecutionRecord(number, task, round_, retry, node, 1, status, 0, None, None, None, None, None)


def final(task: TaskState | None = None, *executions: ExecutionRecord) -> FinalState:
    return FinalState(END, tasks={TASK: task} if task else {}, executions=executions)


def only(violations: list[Violation], invariant: Invariant) -> Violation:
    assert [violation.invariant for violation in violations] == [invariant], [str(one) for one in violations]
    assert "\n" not in str(violations[0])
    return violations[0]
