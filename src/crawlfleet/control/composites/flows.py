"""Flows: a graph of tasks that is submitted in one call, and cancelled and resumed as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.control.tasks.submit import Submit
from crawlfleet.errors import Conflict, InvalidInput, NotFound
from crawlfleet.model import limits
from crawlfleet.model.flow import FlowStatus, StepKey, StepSpec
from crawlfleet.model.group import Group, GroupCounts, GroupKind
from crawlfleet.model.ids import GroupId, IdFactory, TaskId, group_text
from crawlfleet.model.refusal import Refusal
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.composite_store import AddedFlow, NewFlow, NewStep, StepRecord
from crawlfleet.ports.store import CompositeStore
from crawlfleet.ports.task_store import Applied, Claim
from crawlfleet.scheduling.flows import flow_graph
from crawlfleet.scheduling.flows.flow_steps import flow_status
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.wire.tasks import TaskBody

_MEMBERS = 1_000


class StepRequest(NamedTuple):
    task: TaskBody
    after: Mapping[StepKey, str]
    when: str | None = None
    for_each: str | list[Any] | None = None
    max_items: int = limits.FAN_OUT_DEFAULT
    allow_failures: bool = False


class Flow(NamedTuple):
    group: Group
    status: FlowStatus
    counts: GroupCounts
    """Counts of the flow's tasks: steps and items."""
    steps: Sequence[StepRecord] = ()
    """Steps of the flow, only where one flow is shown."""


class Flows:
    def __init__(
        self, *, store: CompositeStore, broker: Broker, clock: Clock, id_factory: IdFactory, submit: Submit
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._ids = id_factory
        self._submit = submit

    async def submit_flow(
        self, name: str | None, project: str | None, requests: Mapping[StepKey, StepRequest], claim: Claim | None = None
    ) -> AddedFlow:
        """Submit the whole flow or nothing. Raises InvalidInput with the field named; OverLimit as a submit does."""
        plans = plan_flow(requests, project)
        flow = self._ids.new_id()
        steps = lay_out_steps(requests, plans, self._ids)
        bodies = [_step_body(requests[key].task, key, project) for key in steps]
        templates = {task for key, (task, _) in steps.items() if plans[key].has_references}
        items = await self._submit.prepare_tasks(bodies, [task for task, _ in steps.values()], templates)
        new = []
        for (key, (_, spec)), item in zip(steps.items(), items, strict=True):
            if isinstance(item, Refusal):
                raise InvalidInput(item.detail, field=f"steps.{key}.task.{item.field}" if item.field else None)
            new.append(NewStep(key, item._replace(group=flow), spec))
        now = self._clock.now()
        async with self._submit.hold_admission(items):
            limited = await self._submit.find_limited_projects(items)
            added = await self._store.add_flow(NewFlow(flow, project or "", name, now, new, limited), claim, now)
        await publish_hints(self._broker, added.applied)
        return added

    async def list_flows(self, limit: int, before: GroupId | None = None, project: str | None = None) -> list[Flow]:
        groups = await self._store.list_groups(limit, before, project, GroupKind.FLOW)
        ids = [group.id for group in groups]
        counts, tallies = await self._store.group_counts(ids), await self._store.flow_tallies(ids)
        return [
            Flow(group, flow_status((tally.status, tally.unrun) for tally in tallies[group.id]), counts[group.id])
            for group in groups
        ]

    async def get_flow(self, flow: GroupId) -> Flow:
        group = await self._find_flow(flow)
        steps = await self._store.flow_steps(flow)
        counts = await self._store.group_counts([flow])
        return Flow(group, flow_status((step.status, step.unrun) for step in steps), counts[flow], steps)

    async def cancel_flow(self, flow: GroupId, reason: str = "its flow was cancelled") -> Applied:
        """Cancel every task of the flow that has not ended."""
        await self._find_flow(flow)
        # The steps first, and together: a step that only waits for the end of another must not see that end and begin.
        steps = [step.task for step in await self._store.flow_steps(flow) if not step.status.is_final]
        applied = await self._cancel_tasks(steps, reason)
        after: TaskId = 0
        while members := await self._store.walk_members(flow, after, _MEMBERS):
            open_tasks = [task for task, is_open in members if is_open and task not in applied.after]
            more = await self._cancel_tasks(open_tasks, reason)
            applied.after.update(more.after)
            applied.refused.update(more.refused)
            after = members[-1][0]
        return applied

    async def _cancel_tasks(self, tasks: Sequence[TaskId], reason: str) -> Applied:
        applied = await self._store.change_tasks(tasks, task_state_machine.cancel_task(reason), self._clock.now())
        await publish_hints(self._broker, applied)
        return applied

    async def resume_flow(self, flow: GroupId) -> Applied:
        """Run again what did not complete. Raises Conflict when there is nothing to resume."""
        await self._find_flow(flow)
        applied = await self._store.resume_flow(flow, self._clock.now())
        if not applied.after:
            raise Conflict(f"nothing of {group_text(flow)} is to run again: its steps completed, or still run")
        await publish_hints(self._broker, applied)
        return applied

    async def drop_flow(self, flow: GroupId) -> list[TaskId]:
        """Delete the flow with all of its tasks, and return their ids. Raises Conflict while one of them has not
        ended."""
        group = await self._find_flow(flow)
        counts = (await self._store.group_counts([flow]))[flow]
        if counts.open:
            raise Conflict(f"{counts.open} tasks of {group_text(flow)} have not ended: cancel it first")
        dropped: list[TaskId] = []
        while members := await self._store.walk_members(flow, 0, _MEMBERS):
            applied = await self._store.drop_tasks([task for task, _ in members], self._clock.now())
            dropped += applied.after
            if applied.refused:
                raise Conflict(f"a task of {group_text(group.id)} was opened again meanwhile")
        await self._store.remove_group(flow)
        return dropped

    async def _find_flow(self, flow: GroupId) -> Group:
        group = (await self._store.load_groups([flow])).get(flow)
        if group is None or group.kind is not GroupKind.FLOW:
            raise NotFound(f"no flow {group_text(flow)}")
        return group


def lay_out_steps(
    requests: Mapping[StepKey, StepRequest], plans: Mapping[StepKey, flow_graph.StepPlan], ids: IdFactory
) -> dict[StepKey, tuple[TaskId, StepSpec]]:
    """Give the steps ids in the order in which tasks end: parents, items, the step that gathers them. Transactions lock
    rows in the order of ids, so that two of them never begin at opposite ends and deadlock."""
    steps: dict[StepKey, tuple[TaskId, StepSpec]] = {}
    for key, plan in plans.items():
        step = requests[key]
        is_fan_out = step.for_each is not None
        first_item = ids.new_ids(step.max_items)[0] if is_fan_out else 0
        has_template = is_fan_out or plan.has_references
        spec = StepSpec(
            after=step.after,
            sees={parent: steps[parent][0] for parent in steps if parent in plan.sees},
            when=step.when,
            for_each=step.for_each,
            max_items=step.max_items if is_fan_out else 0,
            allow_failures=step.allow_failures,
            first_item=first_item,
            template=msgspec.json.decode(step.task.parameters) if has_template else None,
        )
        steps[key] = (ids.new_id(), spec)
    return steps


def plan_flow(requests: Mapping[StepKey, StepRequest], project: str | None) -> dict[StepKey, flow_graph.StepPlan]:
    for key, step in requests.items():
        field = f"steps.{key[:64]}"
        if step.task.depends_on:
            raise InvalidInput("steps depend on each other by `after`", field=f"{field}.task.depends_on")
        if step.task.group_id is not None:
            raise InvalidInput("its flow is its group", field=f"{field}.task.group_id")
        if step.task.project_id not in (None, project):
            raise InvalidInput("is of another project than its flow", field=f"{field}.task.project_id")
    if sum(step.max_items for step in requests.values() if step.for_each is not None) > limits.FLOW_ITEMS:
        raise InvalidInput(f"more than {limits.FLOW_ITEMS} items in all, by `max_items` of its steps", field="steps")
    return flow_graph.plan_steps(
        {
            key: flow_graph.StepDraft(step.after, step.when, step.for_each, msgspec.json.decode(step.task.parameters))
            for key, step in requests.items()
        }
    )


def _step_body(task: TaskBody, key: StepKey, project: str | None) -> TaskBody:
    return msgspec.structs.replace(task, project_id=project, name=task.name or key)
