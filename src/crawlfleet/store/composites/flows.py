"""Flows: added as one, resumed, and read. The transitions of their steps are in `flow_release`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.flow import ONS, Edge, PlaceInFlow, StepKey, StepSpec, Unrun
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import LiveTask, TaskTransition
from crawlfleet.ports.composite_store import AddedFlow, NewFlow, StepRecord, StepTally
from crawlfleet.ports.task_store import Applied, Claim, NewGroup
from crawlfleet.scheduling.flows.flow_steps import StepState, steps_to_resume
from crawlfleet.store import row_codec, schema, task_rows
from crawlfleet.store.composites.flow_release import EDGE_COLUMNS, StepRelease, StepRow
from crawlfleet.store.composites.group_membership import LOCK_GROUPS, GroupMembership
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.projects.project_quotas import load_submit_quotas, over_limit
from crawlfleet.store.row_codec import Format, RecordReader
from crawlfleet.store.tasks.idempotency import claim_key, store_answer
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.live_tasks import LOCK_FINAL, next_round
from crawlfleet.store.tasks.task_insert import NEW_TASKS
from crawlfleet.store.tasks.transitions import Transition

_STATUS = "COALESCE(l.status, d.status)"
_BOTH = "LEFT JOIN live l ON l.id = f.task LEFT JOIN done d ON d.id = f.task"


class _StepRow(NamedTuple):
    """A step as it is read; `items` is the number of tasks that it fanned out into."""

    key: StepKey
    task: TaskId
    task_type: str
    status: TaskStatus
    round: int
    waits: int
    reason: str | None
    unrun: Unrun
    spec: StepSpec
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    items: int | None


_STEP = RecordReader(_StepRow, {"spec": Format(read=row_codec.decode_step_spec)})
_STEP_VALUES = {
    "task_type": "n.task_type",
    "status": _STATUS,
    "round": "COALESCE(l.round, d.round)",
    "waits": "COALESCE(l.waits, 0)",
    "reason": "d.reason",
    "created_at": "t.created_at",
    "started_at": "COALESCE(l.started_at, d.started_at)",
    "ended_at": "d.ended_at",
}
STEPS = (
    f"SELECT {row_codec.sql_values(_STEP.names, _STEP_VALUES, 'f.')} "
    f"FROM flow_step f JOIN task t ON t.id = f.task {_BOTH} JOIN lane n ON n.id = COALESCE(l.lane, d.lane) "
    "WHERE f.group_id = $1 AND f.item IS NULL ORDER BY f.task"
)
ITEMS = (
    f"SELECT f.key, {_STATUS}, COUNT(*) FROM flow_step f {_BOTH} "
    f"WHERE f.group_id = $1 AND f.item IS NOT NULL GROUP BY f.key, {_STATUS}"
)
TALLIES = (
    f"SELECT f.group_id, {_STATUS}, f.unrun, COUNT(*) FROM flow_step f {_BOTH} "
    f"WHERE f.group_id AMONG($1) AND f.item IS NULL GROUP BY f.group_id, {_STATUS}, f.unrun"
)
BAD_ITEMS = (
    "SELECT f.task, f.key FROM flow_step f JOIN done d ON d.id = f.task "
    f"WHERE f.group_id = $1 AND f.item IS NOT NULL AND d.status <> {int(TaskStatus.COMPLETED)} ORDER BY f.task"
)
LIVE_ITEMS = (
    "SELECT f.task, f.key FROM flow_step f JOIN live l ON l.id = f.task "
    "WHERE f.group_id = $1 AND f.item IS NOT NULL ORDER BY f.task"
)
LOCK_MEMBERS = (
    "SELECT l.id FROM flow_step f JOIN live l ON l.id = f.task WHERE f.group_id = $1 ORDER BY l.id LOCK_ROWS(l)"
)
PLACE = "SELECT group_id, key, item, items, unrun FROM flow_step WHERE task = $1"
WAITS_FOR = (
    "SELECT f.key, p.kind, l.status FROM dependency p JOIN flow_step f ON f.task = p.parent "
    f"LEFT JOIN live l ON l.id = p.parent WHERE p.child = $1 AND p.kind <> {int(Edge.ITEM)} ORDER BY f.task"
)
UNRUN_RESULT = "SELECT result FROM done WHERE id = $1 AND session IS NULL"


class FlowTables:
    _engine: QueryEngine
    _lanes: LaneBook

    async def add_flow(self, flow: NewFlow, claim: Claim | None, now: Instant) -> AddedFlow:
        async def write_flow(tx: Tx) -> AddedFlow:
            if claim is not None and (stored_id := await claim_key(tx, claim, now)) is not None:
                return AddedFlow(int(stored_id), Applied(), is_replay=True)
            transition = Transition(tx, self._lanes, now)
            await _insert_flow(tx, self._lanes, transition, flow)
            release = StepRelease(transition, tx, self._lanes, now)
            roots = [step.task.id for step in flow.steps if not step.spec.after]
            await transition.release_children(await release.decide_ready(roots))
            if claim is not None:
                await store_answer(tx, claim, str(flow.id).encode())
            return AddedFlow(flow.id, await transition.write_all())

        return await self._engine.write(write_flow)

    async def resume_flow(self, flow: GroupId, now: Instant) -> Applied:
        return await self._engine.write(lambda tx: _FlowResumption(tx, self._lanes, flow, now).resume_steps())

    async def flow_steps(self, flow: GroupId) -> list[StepRecord]:
        async def read_steps(tx: Tx) -> tuple[Sequence[Row], Sequence[Row]]:
            return await tx.fetch(STEPS, flow), await tx.fetch(ITEMS, flow)

        steps, items = await self._engine.browse_rows(read_steps)
        counts: dict[StepKey, dict[TaskStatus, int]] = defaultdict(dict)
        for key, status, count in items:
            counts[key][task_rows.STATUSES[status]] = count
        return [
            StepRecord(**step._asdict() | {"items": None if step.items is None else counts[step.key]})
            for step in _STEP.from_rows(steps)
        ]

    async def flow_tallies(self, flows: Sequence[GroupId]) -> dict[GroupId, list[StepTally]]:
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(TALLIES, list(flows)))
        tallies: dict[GroupId, list[StepTally]] = {flow: [] for flow in flows}
        for flow, status, unrun, count in rows:
            tallies[flow].append(StepTally(task_rows.STATUSES[status], Unrun(unrun), count))
        return tallies

    async def place_in_flow(self, task: TaskId) -> PlaceInFlow | None:
        async def read_place(tx: Tx) -> tuple[Sequence[Row], Sequence[Row]]:
            places = await tx.fetch(PLACE, task)
            return places, await tx.fetch(WAITS_FOR, task) if places else ()

        places, parents = await self._engine.read_by_key(read_place)
        if not places:
            return None
        flow, key, item, items, unrun = places[0]
        waits_for = [
            (key, Edge(kind), None if status is None else task_rows.STATUSES[status]) for key, kind, status in parents
        ]
        return PlaceInFlow(flow, key, item, items, Unrun(unrun), waits_for)

    async def unrun_result(self, task: TaskId) -> bytes | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(UNRUN_RESULT, task))
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None


async def _insert_flow(tx: Tx, lanes: LaneBook, transition: Transition, flow: NewFlow) -> None:
    """Insert the rows of a flow, with every step waiting. Raises OverLimit."""
    await lanes.keep_lanes(tx, {step.task.lane for step in flow.steps})
    for quota in (await load_submit_quotas(tx, lanes, flow.limited, flow.created_at)).values():
        if full := quota.violation([lanes[step.task.lane].requirement for step in flow.steps]):
            raise over_limit(full, quota.renews_at, flow.created_at)
    membership = GroupMembership(tx)
    # Closed: only the steps of its graph are members.
    membership.create_group(NewGroup(flow.id, flow.project, flow.name, GroupKind.FLOW, is_closed=True))
    await membership.write_groups((), transition.tx_log, flow.created_at)
    transition.tx_log.count_member(flow.id, None, TaskStatus.WAITING, len(flow.steps))
    await tx.insert(schema.task, NEW_TASKS.columns, NEW_TASKS.to_rows(step.task for step in flow.steps))
    live = [
        LiveTask.new(
            step.task.id,
            step.task.lane,
            step.task.timeout_s,
            status=TaskStatus.WAITING,
            waits=len(step.spec.after),
            due_at=step.task.due_at,
            group=flow.id,
        )
        for step in flow.steps
    ]
    await tx.insert(schema.live, task_rows.LIVE_COLUMNS, task_rows.LIVE.to_rows(live))
    steps = [StepRow(step.task.id, flow.id, step.key, spec=row_codec.encode_json(step.spec)) for step in flow.steps]
    await tx.insert(schema.flow_step, StepRow._fields, steps)
    if edges := [edge for step in flow.steps for edge in _edge_rows(step.task.id, step.spec)]:
        await tx.insert(schema.dependency, EDGE_COLUMNS, edges)
    for step in flow.steps:
        transition.tx_log.count_transition(step.task.lane, None, TaskStatus.WAITING)
    transition.tx_log.add_events(EventBatch(Kind.TASK_SUBMITTED, {"task": [step.task.id for step in flow.steps]}))


def _edge_rows(task: TaskId, spec: StepSpec, among: set[StepKey] | None = None) -> list[Row]:
    parents = ((key, on) for key, on in spec.after.items() if among is None or key in among)
    return [(spec.sees[key], task, int(ONS[on])) for key, on in parents]


class _FlowResumption:
    """The resumption of a flow in one transaction: which steps run again, their first state, and what is decided at
    once."""

    def __init__(self, tx: Tx, lanes: LaneBook, flow: GroupId, now: Instant) -> None:
        self._tx = tx
        self._lanes = lanes
        self._flow = flow
        self._now = now
        self._transition = Transition(tx, lanes, now)

    async def resume_steps(self) -> Applied:
        tx = self._tx
        # The lock on the group lets one resumption run at a time; the locks on its members keep every running step
        # from ending between being read here and having a dependent step wait for it.
        await tx.fetch(LOCK_GROUPS, [self._flow])
        await tx.fetch(LOCK_MEMBERS, self._flow)
        steps = {step.key: step for step in _STEP.from_rows(await tx.fetch(STEPS, self._flow))}
        again = steps_to_resume(
            {key: StepState(tuple(step.spec.after), step.status, step.unrun) for key, step in steps.items()}
        )
        items: dict[StepKey, list[TaskId]] = defaultdict(list)
        for task, key in await tx.fetch(BAD_ITEMS, self._flow):
            if key in steps and (key in again or not steps[key].status.is_final):
                items[key].append(task)
        awaited = {key: list(tasks) for key, tasks in items.items()}
        for task, key in await tx.fetch(LIVE_ITEMS, self._flow):
            # Items of a step that ended while they ran: the step begins to wait for them again.
            if key in again:
                awaited.setdefault(key, []).append(task)
        edges = {step.task: _waits_again(step, awaited.get(key, ()), again, steps) for key, step in steps.items()}
        await self._reopen_steps({steps[key].task: len(edges[steps[key].task]) for key in again}, items)
        await self._extend_waits(
            {
                step.task: len(edges[step.task])
                for key, step in steps.items()
                if key not in again and not step.status.is_final
            }
        )
        if rows := [row for key, step in steps.items() for row in edges[step.task]]:
            # Edges to parents that still run exist already if it was a person who cancelled the step.
            await tx.insert_new(schema.dependency, EDGE_COLUMNS, rows)
        release = StepRelease(self._transition, tx, self._lanes, self._now)
        ready = [steps[key].task for key in again if not edges[steps[key].task]]
        await self._transition.release_children(await release.decide_ready(ready))
        return await self._transition.write_all()

    async def _reopen_steps(self, waits: Mapping[TaskId, int], items: Mapping[StepKey, list[TaskId]]) -> None:
        wanted = [*waits, *(task for listed in items.values() for task in listed)]
        if not wanted:
            return
        finals = task_rows.DONE.from_rows(await self._tx.fetch(LOCK_FINAL, sorted(wanted)))
        await next_round(
            self._tx, self._lanes, finals, waits, self._transition.applied, self._transition.tx_log, self._now
        )
        await self._tx.execute("UPDATE flow_step SET unrun = 0 WHERE task AMONG($1)", list(waits))

    async def _extend_waits(self, more: Mapping[TaskId, int]) -> None:
        for step in await self._transition.lock_tasks(task for task, count in more.items() if count):
            after = step._replace(waits=step.waits + more[step.id])
            self._transition.apply_transition(step, TaskTransition(after, Kind.TASK_READY))


def _waits_again(
    step: _StepRow, items: Sequence[TaskId], again: set[StepKey], steps: Mapping[StepKey, _StepRow]
) -> list[Row]:
    """Return the edges to what a step waits for again: its own items, or parents, that run again or, if it is
    reopened, still run."""
    if step.items is not None:
        return [(task, step.task, int(Edge.ITEM)) for task in items]
    if step.status is TaskStatus.WAITING:
        return _edge_rows(step.task, step.spec, again)
    running = {key for key in step.spec.after if key in steps and not steps[key].status.is_final}
    return _edge_rows(step.task, step.spec, again | running) if step.status.is_final else []
