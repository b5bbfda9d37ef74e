"""A crash between every two steps of what is done to flows: its successor finishes what was begun, once."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from crawlfleet.control.composites.flows import StepRequest
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.flow import FlowStatus, StepKey
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.ports.composite_store import StepRecord
from crawlfleet.ports.task_store import Claim
from tests.integration.faults.faults_crashes import NOWHERE
from tests.integration.faults.faults_kit import PlayedNode, echo
from tests.integration.faults.faults_stores import Stores
from tests.integration.faults.test_crashes import Scenario, crash_at

pytestmark = pytest.mark.integration

_S = TaskStatus


def step(*after: str, parameters: Mapping[str, Any] | None = None, **fields: Any) -> StepRequest:
    """`after`: "a" for its success, "a:failure" for another end."""
    parents = {key: on or "success" for key, _, on in (parent.partition(":") for parent in after)}
    return StepRequest(echo(parameters=parameters or {}), parents, **fields)


class FlowScenario(Scenario, ABC):
    flow: GroupId

    async def submitted(self, claim: Claim | None = None, **steps: StepRequest) -> GroupId:
        self.flow = (await self.fleet.master.flows.submit_flow("a flow", None, steps, claim)).id
        return self.flow

    async def steps(self) -> dict[StepKey, StepRecord]:
        return {one.key: one for one in await self.fleet.store.flow_steps(self.flow)}

    async def held(self) -> tuple[PlayedNode, dict[TaskId, int]]:
        """A node that holds everything that is ready: its executions by task."""
        node = await self.fleet.node()
        await self.fleet.dispatch()
        await node.sync()
        return node, {one.task: execution for execution, one in node.held.items()}

    async def expect_words(self, **words: str) -> None:
        found = {key: one.status.word for key, one in (await self.steps()).items()}
        assert found == words
        counts = (await self.fleet.store.group_counts([self.flow]))[self.flow]
        assert counts == await self.fleet.store.count_members(self.flow)
        assert not counts.open


class SubmitAFlow(FlowScenario):
    async def prepare(self) -> None:
        await self.fleet.node()

    async def act(self) -> None:
        claim = Claim("flows:1", "k", b"the body", self.fleet.clock.now() + limits.IDEMPOTENCY_KEEP_MS)
        each = step(for_each=[1, 2], parameters={"n": {"$from": "item"}})
        await self.submitted(claim, a=step(), each=each, never=step("a:failure"), last=step("a", "each"))

    async def expect(self) -> None:
        await self.expect_words(a="completed", each="completed", never="cancelled", last="completed")
        assert len(await self.fleet.store.list_groups(10, kind=GroupKind.FLOW)) == 1


class ReleaseSteps(FlowScenario):
    async def prepare(self) -> None:
        await self.submitted(
            good=step(),
            bad=step(),
            next=step("good"),
            broken=step("good", "bad"),
            mend=step("bad:failure"),
            clean=step("good:always", "bad:always"),
            unwanted=step("good", when="steps.good.result.n > `5`"),
            after_unwanted=step("unwanted"),
            filled=step("good", parameters={"n": {"$from": "steps.good.result.n"}}),
            each=step("good", for_each="steps.good.result.list", parameters={"of": {"$from": "item"}}),
            unfit=step("good", parameters={"n": {"$from": "steps.good.result.missing"}}),
            last=step("each"),
        )
        tasks = {key: one.task for key, one in (await self.steps()).items()}
        self.node, held = await self.held()
        self.node.end(held[tasks["good"]], result=msgspec.Raw(b'{"n":3,"list":["x","y"]}'))
        self.node.end(held[tasks["bad"]], End.FAILED, ErrorClass.INPUT)

    async def act(self) -> None:
        await self.node.sync()

    async def expect(self) -> None:
        await self.expect_words(
            good="completed",
            bad="failed",
            next="completed",
            broken="cancelled",
            mend="completed",
            clean="completed",
            unwanted="cancelled",
            after_unwanted="cancelled",
            filled="completed",
            each="completed",
            unfit="failed",
            last="completed",
        )
        steps = await self.steps()
        assert (await self.fleet.record(steps["filled"].task)).parameters == b'{"n":3}'
        assert steps["each"].items == {_S.COMPLETED: 2}
        assert {letter.task for letter in await self.fleet.store.dead_letters(10)} == {
            steps["bad"].task,
            steps["unfit"].task,
        }


class GatherItems(FlowScenario):
    async def prepare(self) -> None:
        await self.submitted(each=step(for_each=[1, 2, 3], allow_failures=True), last=step("each"))
        self.node, held = await self.held()
        for number, execution in enumerate(held.values()):
            if number == 1:
                self.node.end(execution, End.FAILED, ErrorClass.INPUT)
            else:
                self.node.end(execution, result=msgspec.Raw(b"%d" % number))

    async def act(self) -> None:
        await self.node.sync()

    async def expect(self) -> None:
        await self.expect_words(each="completed", last="completed")
        result = await self.fleet.store.unrun_result((await self.steps())["each"].task)
        assert result is not None
        assert msgspec.json.decode(result) == {
            "results": [0, None, 2],
            "completed": 2,
            "failed": 1,
            "reasons": {"1": "it broke"},
        }


class ResumeAFlow(FlowScenario):
    async def prepare(self) -> None:
        await self.submitted(
            bad=step(),
            next=step("bad"),
            each=step(for_each=[1, 2]),
            both=step("next", "each"),
            mend=step("bad:failure"),
        )
        node, held = await self.held()
        for execution in list(held.values())[:2]:
            node.end(execution, End.FAILED, ErrorClass.INPUT)
        node.end_all()
        await node.sync()
        await self.fleet.settle()
        assert (await self.fleet.master.flows.get_flow(self.flow)).status is FlowStatus.FAILED

    async def act(self) -> None:
        # Somebody who was not answered looks before asking again.
        if (await self.fleet.master.flows.get_flow(self.flow)).status is FlowStatus.FAILED:
            await self.fleet.master.flows.resume_flow(self.flow)

    async def expect(self) -> None:
        await self.expect_words(bad="completed", next="completed", each="completed", both="completed", mend="completed")
        rounds = {key: one.round for key, one in (await self.steps()).items()}
        assert rounds == {"bad": 2, "next": 2, "each": 2, "both": 2, "mend": 1}


class CancelAFlow(FlowScenario):
    async def prepare(self) -> None:
        await self.submitted(
            run=step(), clean=step("run:always"), each=step(for_each=[1, 2]), last=step("each"), late=step("last")
        )
        self.node, _ = await self.held()

    async def act(self) -> None:
        await self.fleet.master.flows.cancel_flow(self.flow)
        await self.node.sync()
        await self.node.sync()

    async def expect(self) -> None:
        await self.expect_words(
            run="cancelled", clean="cancelled", each="cancelled", last="cancelled", late="cancelled"
        )


SCENARIOS = [SubmitAFlow, ReleaseSteps, GatherItems, ResumeAFlow, CancelAFlow]


@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: kind.__name__)
async def test_a_crash_anywhere_is_finished_by_the_successor(stores: Stores, kind: type[FlowScenario]) -> None:
    whole = await crash_at(stores, kind, NOWHERE)
    # The slow store undoes what was torn just as the quick one does: there every third place is enough.
    points = list(whole.points(is_every_call=False))[:: 1 if stores.is_quick else 3]
    assert any(point.statement for point in points)
    for point in points:
        try:
            await crash_at(stores, kind, point)
        except BaseException as exc:
            exc.add_note(f"{point} of calls {whole.calls}, statements {whole.statements}")
            raise
