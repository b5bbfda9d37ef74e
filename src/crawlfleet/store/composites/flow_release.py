"""The release of steps of flows: counted down as their parents end, and decided when the last parent has ended.

All of it happens in the transaction in which that parent ends, whichever verb ended it. The decision itself is pure
(`scheduling.flows.flow_steps`); this module reads its input and writes its outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from crawlfleet.errors import InvariantBroken
from crawlfleet.model import limits
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.execution import Failure
from crawlfleet.model.flow import Edge, Ended, StepKey, StepSpec, Unrun
from crawlfleet.model.ids import GroupId, TaskId, ids_from
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.model.task import LiveTask, RetryPolicy, TaskTransition
from crawlfleet.scheduling.flows import flow_steps
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store import row_codec, schema, task_rows
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.projects.project_quotas import load_submit_quotas
from crawlfleet.store.tasks.lanes import LaneBook

if TYPE_CHECKING:
    from crawlfleet.store.tasks.transitions import Transition

SPECS = "SELECT task, key, items, spec FROM flow_step WHERE task AMONG($1)"
ENDS = (
    "SELECT d.id, d.status, d.reason, f.unrun, COALESCE(LENGTH(d.result), LENGTH(e.result), 0) FROM done d "
    "JOIN flow_step f ON f.task = d.id LEFT JOIN execution e ON e.id = d.execution WHERE d.id AMONG($1)"
)
RESULTS = (
    "SELECT d.id, COALESCE(d.result, e.result) FROM done d LEFT JOIN execution e ON e.id = d.execution "
    "WHERE d.id AMONG($1)"
)
COPIED = "SELECT project, workflow, name, spec FROM task WHERE id = $1"
EDGE_COLUMNS = ("parent", "child", "kind")
_NO_POLICY = RetryPolicy()


class StepRow(NamedTuple):
    """A row of `flow_step`: a step of a flow, or an item that a step fanned out into."""

    task: TaskId
    group_id: GroupId | None
    key: StepKey
    item: int | None = None
    items: int | None = None
    unrun: int = int(Unrun.NOT)
    spec: bytes | None = None


class _StoredStep(NamedTuple):
    """A step as stored beside its live row."""

    key: str
    items: int | None
    spec: StepSpec


class _End(NamedTuple):
    status: TaskStatus
    reason: str | None
    unrun: Unrun
    size: int


class StepRelease:
    def __init__(self, transition: Transition, tx: Tx, lanes: LaneBook, now: Instant) -> None:
        self._transition = transition
        self._tx = tx
        self._lanes = lanes
        self._now = now
        self._ended: dict[TaskId, TaskStatus] = {}
        self._parameters: list[Row] = []
        self._unrun: list[Row] = []
        self._results: list[Row] = []

    async def parents_ended(self, parents: Mapping[TaskId, int]) -> dict[TaskId, TaskStatus]:
        """Count the given number of parents of each step as ended; return the steps that ended by that."""
        ready = []
        for step in await self._lock_steps(parents):
            left = max(0, step.waits - parents[step.id])
            if left:
                self._transition.apply_transition(step, TaskTransition(step._replace(waits=left), Kind.TASK_READY))
            else:
                ready.append(step)
        return await self._decide_steps(ready)

    async def decide_ready(self, steps: Iterable[TaskId]) -> dict[TaskId, TaskStatus]:
        """Decide steps that wait for no parent; return the steps that ended by that."""
        return await self._decide_steps(await self._lock_steps(steps))

    async def _lock_steps(self, steps: Iterable[TaskId]) -> list[LiveTask]:
        return [step for step in await self._transition.lock_tasks(steps) if step.status is TaskStatus.WAITING]

    async def _decide_steps(self, ready: Sequence[LiveTask]) -> dict[TaskId, TaskStatus]:
        if not ready:
            return {}
        stored = {
            row[0]: _StoredStep(row[1], row[2], row_codec.decode_step_spec(row[3]))
            for row in await self._tx.fetch(SPECS, [step.id for step in ready])
        }
        ends = await self._load_ends(stored.values())
        results = await self._load_results_seen(stored.values(), ends)
        for step in ready:
            await self._apply_decision(step, stored[step.id], await self._make_decision(stored[step.id], ends, results))
        await self._write_rows()
        return self._ended

    async def _load_ends(self, steps: Iterable[_StoredStep]) -> dict[TaskId, _End]:
        wanted = {task for stored in steps for task in _tasks_to_read(stored)}
        rows = await self._tx.fetch(ENDS, sorted(wanted)) if wanted else ()
        return {row[0]: _End(task_rows.STATUSES[row[1]], row[2], Unrun(row[3]), row[4]) for row in rows}

    async def _load_results_seen(
        self, steps: Iterable[_StoredStep], ends: Mapping[TaskId, _End]
    ) -> dict[TaskId, bytes]:
        """Read the results of parents, only for steps that look at results at all, and not more than they may read."""
        seen = (_seen_parents(stored, ends) for stored in steps if stored.items is None and stored.spec.needs_results)
        wanted = {
            task for tasks in seen if _total_bytes(tasks, ends) <= flow_steps.MAX_SEEN_BYTES for task in tasks.values()
        }
        return await self._load_results(wanted) if wanted else {}

    async def _make_decision(
        self, stored: _StoredStep, ends: Mapping[TaskId, _End], results: Mapping[TaskId, bytes]
    ) -> flow_steps.StepDecision:
        if stored.items is not None:
            return await self._fan_in(stored, ends)
        seen = _seen_parents(stored, ends)
        if stored.spec.needs_results and (size := _total_bytes(seen, ends)) > flow_steps.MAX_SEEN_BYTES:
            return flow_steps.FailStep(
                f"the results it looks at have {size} bytes; at most {flow_steps.MAX_SEEN_BYTES} are read"
            )
        ended = {}
        for key, task in seen.items():
            end = ends[task]
            try:
                result = row_codec.decode_json(results[task]) if stored.spec.needs_results and task in results else None
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
                return flow_steps.FailStep(f"the result of step {key} cannot be read: {exc}")
            ended[key] = Ended(end.status, result, end.reason, end.unrun)
        return flow_steps.decide_step(stored.key, stored.spec, ended)

    async def _fan_in(self, stored: _StoredStep, ends: Mapping[TaskId, _End]) -> flow_steps.FanInResult:
        items = [(task, ends.get(task)) for task in _tasks_to_read(stored)]
        completed = [(task, end) for task, end in items if end is not None and end.status is TaskStatus.COMPLETED]
        fitting = flow_steps.count_fitting_results([end.size for _, end in completed])
        results = await self._load_results(task for task, _ in completed[:fitting])
        cut = sum(end.size > 0 for _, end in completed[fitting:])
        reasons = {
            index: end.reason
            for index, (_, end) in enumerate(items)
            if end is not None and end.reason and end.status is not TaskStatus.COMPLETED
        }
        return flow_steps.gather_results(
            [(None if end is None else end.status, results.get(task)) for task, end in items],
            cut,
            allow_failures=stored.spec.allow_failures,
            reasons=reasons,
        )

    async def _load_results(self, tasks: Iterable[TaskId]) -> dict[TaskId, bytes]:
        rows = await self._tx.fetch(RESULTS, sorted(tasks))
        return {row[0]: bytes(row[1]) for row in rows if row[1] is not None}

    async def _apply_decision(self, step: LiveTask, stored: _StoredStep, decision: flow_steps.StepDecision) -> None:
        match decision:
            case flow_steps.RunStep(parameters):
                if parameters is not None:
                    self._parameters.append((step.id, parameters))
                self._apply_transition(
                    step, task_state_machine.count_completed_parents(self._now, step.waits)(step, _NO_POLICY)
                )
            case flow_steps.FanOut(parameters):
                full = await self._reserve_items(step, len(parameters))
                if full is None:
                    await self._fan_out(step, stored, parameters)
                else:
                    await self._apply_decision(
                        step, stored, flow_steps.FailStep(f"{len(parameters)} items have no room: {full}")
                    )
            case flow_steps.EndUnrun(unrun, reason):
                self._unrun.append((step.id, int(unrun)))
                self._apply_transition(step, task_state_machine.cancel_task(reason)(step, _NO_POLICY))
            case flow_steps.FailStep(reason):
                failure = Failure(ErrorClass.INPUT, reason[: limits.MESSAGE_CHARS], is_permanent=True)
                self._apply_transition(
                    step, task_state_machine.end_unrun(TaskStatus.FAILED, reason, failure)(step, _NO_POLICY)
                )
            case flow_steps.FanInResult(is_completed, result, reason):
                self._results.append((step.id, result))
                status = TaskStatus.COMPLETED if is_completed else TaskStatus.FAILED
                self._apply_transition(step, task_state_machine.end_unrun(status, reason)(step, _NO_POLICY))

    def _apply_transition(self, step: LiveTask, transition: object) -> None:
        if not isinstance(transition, TaskTransition):
            raise InvariantBroken(f"a waiting step was refused what was decided: {transition}")
        if self._transition.apply_transition(step, transition, is_unrun=True) and transition.after.status.is_final:
            self._ended[step.id] = transition.after.status

    async def _reserve_items(self, step: LiveTask, count: int) -> str | None:
        """Reserve the items of a step in its project's quotas; return the quota that they exceed, or None.

        Here the lock on a project comes after those on tasks: where this meets a transaction that takes them the other
        way round, one of the two is run again.
        """
        lane, quotas = self._lanes[step.lane], self._transition.doors
        if lane.project not in quotas:
            loaded = await load_submit_quotas(self._tx, self._lanes, [lane.project], self._now)
            quotas[lane.project] = loaded.get(lane.project)
        quota, requirements = quotas[lane.project], [lane.requirement] * count
        full = quota.violation(requirements) if quota is not None else None
        if quota is not None and full is None:
            quota.reserve(requirements)
        return full

    async def _fan_out(self, step: LiveTask, stored: _StoredStep, parameters: Sequence[bytes]) -> None:
        """Create the items of a step, as tasks like itself; the step waits for them."""
        tx, now, count = self._tx, self._now, len(parameters)
        # The step may leave this lane before its items do.
        await self._lanes.keep_lanes(tx, [step.lane])
        ((project, workflow, name, spec),) = await tx.fetch(COPIED, step.id)
        items = ids_from(stored.spec.first_item, count)
        columns = ("id", "project", "workflow", "name", "created_at", "parameters", "spec", "group_id")
        rows = [
            (task, project, workflow, f"{name}[{index}]"[-limits.NAME_CHARS :], now, body, spec, step.group)
            for index, (task, body) in enumerate(zip(items, parameters, strict=True))
        ]
        await tx.insert(schema.task, columns, rows)
        await tx.insert(
            schema.flow_step,
            StepRow._fields,
            [StepRow(task, step.group, stored.key, item=index) for index, task in enumerate(items)],
        )
        await tx.insert(schema.dependency, EDGE_COLUMNS, [(item, step.id, int(Edge.ITEM)) for item in items])
        await tx.execute("UPDATE flow_step SET items = $2 WHERE task = $1", step.id, count)
        await self._start_items(step, items)
        self._apply_transition(step, TaskTransition(step._replace(waits=count, due_at=None), Kind.TASK_READY))

    async def _start_items(self, step: LiveTask, items: Sequence[TaskId]) -> None:
        transition = self._transition
        transition.tx_log.add_events(EventBatch(Kind.TASK_SUBMITTED, {"task": list(items)}))
        if step.group is not None:
            transition.tx_log.count_member(step.group, None, TaskStatus.PENDING, len(items))
        if step.due_at is None or step.due_at <= self._now:
            await self._tx.add_pending([(task, step.lane, step.timeout_s, step.group) for task in items], self._now)
            transition.tx_log.count_transition(step.lane, None, TaskStatus.PENDING, len(items))
            transition.applied.ready.setdefault(step.lane, []).extend(items)
        else:
            live = [step._replace(id=task, waits=0, round=1, retries=0) for task in items]
            await self._tx.insert(schema.live, task_rows.LIVE_COLUMNS, task_rows.LIVE.to_rows(live))
            transition.tx_log.count_transition(step.lane, None, TaskStatus.WAITING, len(items))

    async def _write_rows(self) -> None:
        if self._parameters:
            await self._tx.update(schema.task, ("id", "parameters"), self._parameters)
        if self._unrun:
            await self._tx.update(schema.flow_step, ("task", "unrun"), self._unrun)
        if self._results:
            await self._transition.flush_rows()
            await self._tx.update(schema.done, ("id", "result"), self._results)


def _tasks_to_read(stored: _StoredStep) -> Iterable[TaskId]:
    if stored.items is not None:
        return ids_from(stored.spec.first_item, stored.items)
    return stored.spec.sees.values()


def _seen_parents(stored: _StoredStep, ends: Mapping[TaskId, _End]) -> dict[StepKey, TaskId]:
    return {key: task for key, task in stored.spec.sees.items() if task in ends}


def _total_bytes(seen: Mapping[StepKey, TaskId], ends: Mapping[TaskId, _End]) -> int:
    return sum(ends[task].size for task in seen.values())
