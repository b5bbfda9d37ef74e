"""Flows for tests of the store: laid out as control does it, run by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from crawlfleet.control.composites.flows import StepRequest, lay_out_steps, plan_flow
from crawlfleet.model.execution import End, Failure
from crawlfleet.model.flow import StepKey
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.composite_store import AddedFlow, NewFlow, NewStep, StepRecord
from crawlfleet.ports.task_store import Applied, Claim
from crawlfleet.wire.tasks import TaskBody
from testkit.factories import PROJECT, Kit, ReadyNode


class FlowKit:
    """One flow, and a node to run its tasks on."""

    def __init__(self, kit: Kit, node: ReadyNode, flow: NewFlow) -> None:
        self.kit = kit
        self.node = node
        self.new = flow
        self.id: GroupId = flow.id
        self.tasks: dict[StepKey, TaskId] = {step.key: step.task.id for step in flow.steps}

    @classmethod
    async def drafted(cls, kit: Kit, steps: Mapping[StepKey, Mapping[str, Any]]) -> FlowKit:
        """Draft a flow without storing it. A step has `after`, `when`, `for_each`, ... and `parameters`, `run_at`."""
        requests = {key: _step_request(step) for key, step in steps.items()}
        flow = kit.ids.new_id()
        new = []
        for key, (task, spec) in lay_out_steps(requests, plan_flow(requests, PROJECT), kit.ids).items():
            made = kit.new_task(parameters=bytes(requests[key].task.parameters), name=key, group=flow)
            new.append(NewStep(key, made._replace(id=task, due_at=steps[key].get("due_at")), spec))
        return cls(kit, await kit.node(), NewFlow(flow, PROJECT, "a flow", kit.now, new))

    @classmethod
    async def stored(cls, kit: Kit, steps: Mapping[StepKey, Mapping[str, Any]]) -> FlowKit:
        flow = await cls.drafted(kit, steps)
        await flow.add()
        return flow

    async def add(self, claim: Claim | None = None) -> AddedFlow:
        return await self.kit.store.add_flow(self.new, claim, self.kit.now)

    async def steps(self) -> dict[StepKey, StepRecord]:
        return {step.key: step for step in await self.kit.second.flow_steps(self.id)}

    async def words(self) -> dict[StepKey, str]:
        return {key: step.status.word for key, step in (await self.steps()).items()}

    async def items(self, key: StepKey) -> list[TaskId]:
        return await list_items(self.kit, self.id, key)

    async def complete(self, what: StepKey | TaskId, result: Any = None) -> Applied:
        run = (await self.kit.assign([self._task(what)], self.node))[0]
        body = None if result is None else msgspec.json.encode(result)
        return await self.kit.store.complete_executions([self.kit.outcome(run)._replace(result=body)], self.kit.now)

    async def fail(self, what: StepKey | TaskId, message: str = "it broke") -> Applied:
        run = (await self.kit.assign([self._task(what)], self.node))[0]
        return await self.kit.finish(run, End.FAILED, Failure(ErrorClass.INPUT, message))

    async def resume(self) -> Applied:
        return await self.kit.store.resume_flow(self.id, self.kit.now)

    async def parameters(self, what: StepKey | TaskId) -> Any:
        return msgspec.json.decode((await self.kit.record(self._task(what))).parameters)

    async def result(self, key: StepKey) -> Any:
        body = await self.kit.second.unrun_result(self.tasks[key])
        return None if body is None else msgspec.json.decode(body)

    def _task(self, what: StepKey | TaskId) -> TaskId:
        return self.tasks[what] if isinstance(what, str) else what


async def list_items(kit: Kit, flow: GroupId, key: StepKey) -> list[TaskId]:
    sql = "SELECT task FROM flow_step WHERE group_id = $1 AND key = $2 AND item IS NOT NULL ORDER BY item"
    return [row[0] for row in await kit.second.engine.read(lambda tx: tx.fetch(sql, flow, key))]


def _step_request(step: Mapping[str, Any]) -> StepRequest:
    fields = {name: value for name, value in step.items() if name in StepRequest._fields}
    after = fields.pop("after", {})
    parents = after if isinstance(after, Mapping) else dict.fromkeys(after, "success")
    body = TaskBody("echo", msgspec.Raw(msgspec.json.encode(step.get("parameters", {}))))
    return StepRequest(body, parents, **fields)
