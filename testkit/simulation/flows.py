"""Flows of the simulation: small graphs of every kind of edge, with a fan-out; they are cancelled and resumed.

Steps are watched as they are released: once in each round, and not before their parents have ended as their edges
require.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

import msgspec

from crawlfleet.control.composites.flows import StepRequest
from crawlfleet.errors import Conflict
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.flow import StepKey, Unrun
from crawlfleet.model.ids import GroupId, TaskId, group_text, task_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.composite_store import AddedFlow, StepRecord
from crawlfleet.ports.task_store import Claim
from crawlfleet.wire.tasks import TaskBody, task_body
from testkit.clock import EPOCH
from testkit.simulation.people import People
from testkit.simulation.watch import Look
from testkit.simulation.work import draw_parameters
from testkit.simulation.world import TASK_TYPE, SimMaster, World
from testkit.violations import Invariant, Violation

FLOWS = 3
_DAY_MS = 86_400_000
_EDGES: Mapping[StepKey, Mapping[StepKey, str]] = {
    "first": {},
    "second": {},
    "both": {"first": "success", "second": "success"},
    "fans": {"first": "success"},
    "mends": {"both": "failure"},
    "last": {"both": "always", "fans": "always", "mends": "always"},
}
ITEMS = 3
_STEPS = (
    "SELECT task, group_id, key FROM flow_step WHERE item IS NULL AND task IN (SELECT value FROM json_each(?)) "
    "ORDER BY task"
)


class _Place(NamedTuple):
    """A step of a flow."""

    flow: GroupId
    key: StepKey


class StepWatch:
    """Checks at every commit that steps are released once, after their parents."""

    def __init__(self, look: Look, world: World) -> None:
        self._look = look
        self._world = world
        self.violations: list[Violation] = []
        self._places: dict[TaskId, _Place] = {}
        self._tasks: dict[_Place, TaskId] = {}
        self._waiting: set[TaskId] = set()
        """Ids of steps that were not released in their round."""
        self._retrying: set[TaskId] = set()
        """Ids of steps released before that are to be tried again, whatever their parents do meanwhile."""

    def committed(self, batches: Iterable[EventBatch]) -> None:
        """Check a transaction, after the world has recorded which tasks ended."""
        batches = list(batches)
        for batch in batches:
            tasks = batch.each.get("task", ())
            if batch.kind is Kind.TASK_SUBMITTED:
                self._meet(tasks)
            elif batch.kind is Kind.TASK_REOPENED:
                self._waiting.update(task for task in tasks if task in self._places)
            elif batch.kind in (Kind.TASK_RETRYING, Kind.TASK_PARKED):
                self._retrying.update(task for task in tasks if task in self._places)
        for batch in batches:
            if batch.kind is Kind.TASK_READY:
                for task in batch.each["task"]:
                    if task in self._places:
                        self._released(task)
            elif batch.kind is Kind.TASK_ASSIGNED:
                for task in self._waiting.intersection(batch.each["task"]):
                    self._say(f"{self._named(task)} was assigned, and never released")

    def _meet(self, tasks: Iterable[TaskId]) -> None:
        for task, flow, key in self._look(_STEPS, msgspec.json.encode(list(tasks)).decode()):
            if task not in self._places:
                place = self._places[task] = _Place(flow, key)
                self._tasks[place] = task
                self._waiting.add(task)

    def _released(self, task: TaskId) -> None:
        if task in self._waiting:
            self._waiting.remove(task)
            self._judge_parents(task)
        elif task in self._retrying:
            self._retrying.remove(task)
        else:
            self._say(f"{self._named(task)} was released twice")

    def _judge_parents(self, task: TaskId) -> None:
        place = self._places[task]
        for parent, on in _EDGES[place.key].items():
            status = self._world.ended.get(self._tasks[_Place(place.flow, parent)])
            is_so = status is not None and (on == "always" or (status is TaskStatus.COMPLETED) is (on == "success"))
            if not is_so:
                word = "goes on" if status is None else f"ended {status.word}"
                self._say(f"{self._named(task)} was released on {on} of {parent}, which {word}")

    def _named(self, task: TaskId) -> str:
        return f"step {self._places[task].key} ({task_text(task)}) of {group_text(self._places[task].flow)}"

    def _say(self, detail: str) -> None:
        self.violations.append(Violation(Invariant.STEPS_ONCE, detail, self._world.history.now))


class SimFlows:
    """Submits, resumes and cancels flows, and checks them at the end."""

    def __init__(self, world: World, people: People, busy_s: float) -> None:
        self._world = world
        self._people = people
        self._busy_s = busy_s
        self._rng = world.loop.rng("flows")
        self._made: list[GroupId] = []

    async def make(self) -> None:
        if self._rng.random() < 0.6:
            async with asyncio.TaskGroup() as group:
                for number in range(FLOWS):
                    rng = Random(self._rng.random())
                    group.create_task(self._submit(f"flow-{number}", rng.uniform(0, self._busy_s * 0.7), rng))

    async def _submit(self, name: str, start_s: float, rng: Random) -> None:
        await asyncio.sleep(start_s)
        requests = {key: _step(key, rng) for key in _EDGES}
        claim = Claim("flows", name, name.encode(), EPOCH + _DAY_MS)

        async def send(master: SimMaster) -> AddedFlow:
            assert master.master is not None
            return await master.master.flows.submit_flow(name, None, requests, claim)

        added = await self._people.ask(send, rng)
        if added is None:
            return
        self._made.append(added.id)
        steps = await self._world.store.flow_steps(added.id)
        self._people.accepted_tasks += [step.task for step in steps]
        await asyncio.sleep(rng.uniform(5, 60))
        verb = rng.choice((None, None, self._resume, self._cancel))
        if verb is not None:
            await verb(added.id, rng)

    async def _resume(self, flow: GroupId, rng: Random) -> None:
        async def send(master: SimMaster) -> bool:
            assert master.master is not None
            try:
                await master.master.flows.resume_flow(flow)
            except Conflict:
                return False
            return True

        await self._people.ask(send, rng)

    async def _cancel(self, flow: GroupId, rng: Random) -> None:
        async def send(master: SimMaster) -> bool:
            assert master.master is not None
            await master.master.flows.cancel_flow(flow)
            return True

        await self._people.ask(send, rng)
        await asyncio.sleep(rng.uniform(5, 30))
        await self._resume(flow, rng)

    async def violations(self) -> list[Violation]:
        """Check that the end of every step follows from how its parents ended."""
        return [
            Violation(Invariant.STEPS_ONCE, f"{group_text(flow)}: {complaint}")
            for flow in self._made
            for complaint in await self._judged(flow)
        ]

    async def _judged(self, flow: GroupId) -> list[str]:
        steps = {step.key: step for step in await self._world.store.flow_steps(flow)}
        if steps.keys() != _EDGES.keys():
            return [f"has the steps {sorted(steps)}"]
        complaints = []
        for key, step in steps.items():
            parents = [(on, steps[parent]) for parent, on in _EDGES[key].items()]
            if not step.status.is_final or not all(parent.status.is_final for _, parent in parents):
                continue
            is_due = all(_holds(on, parent) for on, parent in parents)
            if is_due and step.unrun is not Unrun.NOT:
                complaints.append(f"{key} was left out, though its parents ended as it asks")
            # A completed step stays when a flow is resumed, though its parents may end otherwise the next time.
            is_first = all(parent.round == 1 for _, parent in parents)
            if is_first and not is_due and step.unrun is Unrun.NOT and step.status is not TaskStatus.CANCELLED:
                complaints.append(f"{key} ended {step.status.word}, though its parents did not end as it asks")
            if step.items is not None and sum(step.items.values()) != ITEMS:
                complaints.append(f"{key} has {step.items} for {ITEMS} items")
        return complaints


def _holds(on: str, parent: StepRecord) -> bool:
    if on == "always":
        return True
    if on == "success":
        return parent.status is TaskStatus.COMPLETED
    return parent.status is not TaskStatus.COMPLETED and parent.unrun is not Unrun.SKIPPED


def _step(key: StepKey, rng: Random) -> StepRequest:
    fields: dict[str, Any] = {
        "task_type": TASK_TYPE,
        "parameters": draw_parameters(rng),
        "timeout_s": 30,
        "priority": rng.randint(1, 10),
        "retry": {"max_retries": rng.randint(0, 2), "base_delay_s": 0.5, "max_delay_s": 5.0},
    }
    body = task_body(fields)
    assert isinstance(body, TaskBody), body
    if key == "fans":
        return StepRequest(body, _EDGES[key], for_each=list(range(ITEMS)), max_items=ITEMS)
    return StepRequest(body, _EDGES[key])
