"""The transition pending -> assigned: batches of the leader, and assignments by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import NodeStatus, TaskStatus
from crawlfleet.ports.task_store import Applied, Assignment
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.transaction_log import TransactionLog

OPEN_SESSIONS = (
    "SELECT l.node, l.session FROM lease l JOIN node n ON n.id = l.node "
    f"WHERE l.node AMONG($1) AND l.is_open = 1 AND n.status = {int(NodeStatus.ONLINE)} "
    "AND l.departing <> l.session "
    "ORDER BY l.node SHARE_ROWS(l)"
)
# Read after the leases were locked: a pull is closed under the same lock.
OPEN_PULL_NUMBERS = "SELECT node, number FROM pull WHERE node AMONG($1) AND want > 0"
_NODE_NOT_READY = Refusal(Code.NODE_NOT_READY, "the node's session is over, or it takes no work")
_NOT_READY = Refusal(Code.NOT_READY, "is no longer pending")
_LOOK_AGAIN = Refusal(Code.OVER_QUOTA, "the quotas of its project, or what it uses, have changed meanwhile")
_ASSIGNED = TaskStatus.ASSIGNED


async def assign_batch(
    tx: Tx,
    lanes: LaneBook,
    batch: Sequence[Assignment],
    now: Instant,
    behind: Collection[str] = (),
    pulls: Mapping[NodeId, int] | None = None,
) -> Applied:
    """Assign tasks to nodes; those of the projects in `behind` are refused, and have to wait for the leader's next
    read. So are those for nodes of `pulls` whose pull of this number is over."""
    applied = Applied()
    if behind:
        await lanes.load_lanes(tx, {item.lane for item in batch})
        late = [item for item in batch if lanes[item.lane].project in behind]
        applied.refused.update((item.task, _LOOK_AGAIN) for item in late)
        batch = [item for item in batch if item.task not in applied.refused]
        if not batch:
            return applied
    tasks, _, _, nodes, sessions = zip(*batch, strict=True)
    is_open = {(row[0], row[1]) for row in await tx.fetch(OPEN_SESSIONS, sorted(set(nodes)))}
    if pulls:
        closed = await _closed_pulls(tx, pulls)
        is_open = {session for session in is_open if session[0] not in closed}
    rows: Sequence[Row] = batch
    if len(set(tasks)) != len(batch) or not is_open.issuperset(zip(nodes, sessions, strict=True)):
        rows = _select_assignable(batch, is_open, applied)
    moved = await tx.assign_tasks(rows, now) if rows else []
    if len(moved) != len(rows):
        assigned = set(moved)
        applied.refused.update((row[0], _NOT_READY) for row in rows if row[0] not in assigned)
        rows = [row for row in rows if row[0] in assigned]
    if not rows:
        return applied
    tasks, in_lanes, executions, nodes, _ = zip(*rows, strict=True)
    tx_log = TransactionLog()
    tx_log.count_assignments(Counter(zip(in_lanes, nodes, strict=True)))
    tx_log.add_events(EventBatch(Kind.TASK_ASSIGNED, {"task": tasks, "execution": executions, "node": nodes}))
    await tx_log.write_log(tx, now)
    applied.after = dict.fromkeys(tasks, _ASSIGNED)
    applied.nodes_to_wake = set(nodes)
    return applied


def _select_assignable(batch: Sequence[Assignment], is_open: set[Row], applied: Applied) -> list[Row]:
    """Select the assignments to open sessions. If a task is named twice, only the first of them counts: a task can
    have only one live execution."""
    wanted: dict[TaskId, Row] = {}
    for item in batch:
        if (item.node, item.session) in is_open:
            wanted.setdefault(item.task, item)
    applied.refused.update((item.task, _NODE_NOT_READY) for item in batch if item.task not in wanted)
    return list(wanted.values())


async def _closed_pulls(tx: Tx, pulls: Mapping[NodeId, int]) -> set[NodeId]:
    """Return the nodes whose pull of this number is over."""
    current = {row[0]: row[1] for row in await tx.fetch(OPEN_PULL_NUMBERS, sorted(pulls))}
    return {node for node, number in pulls.items() if current.get(node) != number}
