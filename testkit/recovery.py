"""Judges recovery: a dead node's work must run elsewhere in time, and a dead leader must be replaced.

Only single faults count: a kill is left out while another fault lasts, or ended so shortly before that the
installation may still be recovering from it. Nodes are taken to be equal: any of them could run the lost work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from crawlfleet.model.ids import ExecutionId, NodeId, TaskId, execution_text, node_text, task_text
from crawlfleet.model.status import ExecutionStatus
from testkit.history import (
    Assigned,
    CancelAnswered,
    Ended,
    Fault,
    FaultInjected,
    FinalState,
    History,
    LeaderElected,
    MasterKilled,
    MasterStarted,
    NodeKilled,
    NodeLeft,
    NodeStarted,
    OutcomeAccepted,
)
from testkit.violations import Invariant, Limits, Violation

_REPORTED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT, ExecutionStatus.CANCELLED)
"""Statuses of executions whose outcome was known after all, so that nothing was lost."""


class _Hold(NamedTuple):
    """A slot in use: from the assignment until the first sign that it is free."""

    assigned: Assigned
    until: float


class _Up(NamedTuple):
    """A node that takes work, from `start` to `end`."""

    node: NodeId
    slots: int
    start: int
    end: float


def reassignments(history: History, final: FinalState, limits: Limits) -> Iterator[Violation]:
    holds = _holds(history)
    nodes = _nodes_up(history)
    by_task: dict[TaskId, list[Assigned]] = defaultdict(list)
    for assigned in history.of(Assigned):
        by_task[assigned.task].append(assigned)
    for kill in history.of(NodeKilled):
        by = kill.at + limits.recovery_ms
        if by > final.at or is_disturbed(history, kill, by, limits):
            continue
        if not any(_has_free_slot(node, holds[node.node], kill, by) for node in nodes):
            continue
        settled = _settled(history, by)
        reported = {execution.id for execution in final.executions if execution.status in _REPORTED}
        for hold in holds[kill.node]:
            lost = hold.assigned
            if not (lost.at <= kill.at < hold.until):
                continue
            if (lost.task, lost.round) in settled or lost.execution in reported or lost.task in final.held_back:
                continue
            again = [other for other in by_task[lost.task] if other.at >= kill.at and other.execution != lost.execution]
            if not again or again[0].at > by:
                late = f"only at {again[0].at / 1000:.3f} s" if again else "never"
                detail = (
                    f"{task_text(lost.task)} lost {execution_text(lost.execution)} with {node_text(kill.node)} "
                    f"and was assigned again {late}, though a slot was free all the time"
                )
                yield Violation(Invariant.RECOVERY_BOUNDED, detail, kill.at)


def elections(history: History, final: FinalState, limits: Limits) -> Iterator[Violation]:
    elected = history.of(LeaderElected)
    for kill in history.of(MasterKilled):
        by = kill.at + limits.election_ms
        leader = next((election for election in reversed(elected) if election.at <= kill.at), None)
        if leader is None or leader.master != kill.master or by > final.at:
            continue
        if is_disturbed(history, kill, by, limits) or not _is_another_master_up(history, kill, by):
            continue
        follower = next(
            (election for election in elected if election.at >= kill.at and election.term > leader.term), None
        )
        if follower is None or follower.at > by:
            late = f"only at {follower.at / 1000:.3f} s" if follower else "never"
            detail = f"{kill.master}, leader of term {leader.term}, was killed and replaced {late}"
            yield Violation(Invariant.RECOVERY_BOUNDED, detail, kill.at)


def is_disturbed(history: History, kill: NodeKilled | MasterKilled, by: int, limits: Limits) -> bool:
    """Return whether another fault lasts into the time for recovery, or ended within that time before the kill."""
    others = [(fault.at, fault.until) for fault in history.of(FaultInjected) if not _is_same(fault, kill)]
    others += [(other.at, other.at) for other in history.of(NodeKilled) if other is not kill]
    others += [(other.at, other.at) for other in history.of(MasterKilled) if other is not kill]
    return any(start <= by and end + limits.recovery_ms > kill.at for start, end in others)


def _is_same(fault: FaultInjected, kill: NodeKilled | MasterKilled) -> bool:
    if isinstance(kill, NodeKilled):
        return (fault.kind, fault.target, fault.at) == (Fault.NODE_KILL, kill.node, kill.at)
    return (fault.kind, fault.target, fault.at) == (Fault.MASTER_KILL, kill.master, kill.at)


def _holds(history: History) -> dict[NodeId, list[_Hold]]:
    free_at: dict[ExecutionId, float] = {}
    ends = [(end.execution, end.at) for end in history.of(Ended)]
    ends += [(outcome.execution, outcome.at) for outcome in history.of(OutcomeAccepted)]
    for execution, ended_at in ends:
        free_at[execution] = min(free_at.get(execution, inf), ended_at)
    last: dict[TaskId, Assigned] = {}
    for assigned in history.of(Assigned):
        before = last.get(assigned.task)
        if before is not None:
            # The store never assigns a task anew before its slot is free, even if no record shows that.
            free_at[before.execution] = min(free_at.get(before.execution, inf), assigned.at)
        last[assigned.task] = assigned
    holds: dict[NodeId, list[_Hold]] = defaultdict(list)
    for assigned in history.of(Assigned):
        holds[assigned.node].append(_Hold(assigned, free_at.get(assigned.execution, inf)))
    return holds


def _nodes_up(history: History) -> list[_Up]:
    nodes = []
    gone = [(kill.node, kill.at) for kill in history.of(NodeKilled)]
    gone += [(leave.node, leave.at) for leave in history.of(NodeLeft)]
    for started in history.of(NodeStarted):
        end = min((gone_at for node, gone_at in gone if node == started.node and gone_at >= started.at), default=inf)
        nodes.append(_Up(started.node, started.slots, started.at, end))
    return nodes


def _has_free_slot(node: _Up, holds: list[_Hold], kill: NodeKilled, by: int) -> bool:
    """Return whether the node is up with a free slot from the kill to the end of the time for recovery."""
    if node.node == kill.node or node.start > kill.at or node.end <= by:
        return False
    changes: list[tuple[float, int]] = []
    for hold in holds:
        if node.start <= hold.assigned.at <= by and hold.until > kill.at:
            changes += [(max(hold.assigned.at, kill.at), 1), (hold.until, -1)]
    used = 0
    for instant, change in sorted(changes):
        if instant > by:
            break
        used += change
        if used >= node.slots:
            return False
    return node.slots > 0


def _settled(history: History, by: int) -> set[tuple[TaskId, int]]:
    """Return the rounds of tasks that needed no other node: final by then, or with a cancellation requested."""
    final = {(outcome.task, outcome.round) for outcome in history.of(OutcomeAccepted) if outcome.at <= by}
    return final | {(cancel.task, cancel.round) for cancel in history.of(CancelAnswered) if cancel.at <= by}


def _is_another_master_up(history: History, kill: MasterKilled, by: int) -> bool:
    killed = history.of(MasterKilled)
    for started in history.of(MasterStarted):
        end = min(
            (other.at for other in killed if other.master == started.master and other.at >= started.at), default=inf
        )
        if started.master != kill.master and started.at <= kill.at and end > by:
            return True
    return False
