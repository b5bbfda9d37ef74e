"""People and programs of the simulation: they submit, cancel, retry and drain, and try again without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, TypeVar

import msgspec

from crawlfleet.control.composites.groups import GroupRequest
from crawlfleet.errors import OverLimit, Unavailable
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.task_store import Accepted
from crawlfleet.wire.tasks import TaskBody, task_body
from testkit import history as past
from testkit.clock import EPOCH
from testkit.simulation.work import draw_parameters
from testkit.simulation.world import TASK_TYPE, SimMaster, World

T = TypeVar("T")
PATIENCE_S = 8.0
TRIES = 40
CROWDS = 2
LIMITED = "limited"
"""Name of the project that has quotas, in runs that have one."""
STACK = "stack"
"""Name of the queue that is last in first out, in runs that have one."""


class People:
    """The users of the simulated installation."""

    def __init__(self, world: World, tasks: int, busy_s: float) -> None:
        self._world = world
        self._rng = world.loop.rng("people")
        self._tasks = tasks
        self._busy_s = busy_s
        self.accepted_tasks: list[TaskId] = []
        self.has_stack = False
        self.has_quotas = False
        self.reserved: Mapping[str, float] = {}
        """Resources that every task of the project with quotas asks for."""

    async def submit_all(self) -> None:
        """Submit every task of the run, in batches, spread over the busy time."""
        async with asyncio.TaskGroup() as group:
            left, number = self._tasks, 0
            while left > 0:
                size = min(left, self._rng.choice((1, 1, 2, 5, 10, 25)))
                start_s = self._rng.uniform(0, self._busy_s)
                group.create_task(self._submit(f"batch-{number}", size, start_s, Random(self._rng.random())))
                left, number = left - size, number + 1

    async def crowd(self) -> None:
        """Submit more tasks than fit, all of which may wait; then a few tasks that may not."""
        rng = self._world.loop.rng("crowds")
        async with asyncio.TaskGroup() as group:
            for number in range(CROWDS):
                start_s = rng.uniform(0, self._busy_s)
                patient = {"priority": 1, "preemptible": True, "parameters": {"ms": 8_000}, "depends_on": []}
                urgent = {"priority": 10, "parameters": {"ms": 300}, "depends_on": []}
                group.create_task(self._submit(f"crowd-{number}", 30, start_s, Random(rng.random()), **patient))
                group.create_task(self._submit(f"urgent-{number}", 4, start_s + 3, Random(rng.random()), **urgent))

    async def interfere(self) -> None:
        """Cancel, retry, change priorities, pause the queue and drain nodes."""
        end = self._world.loop.time() + self._busy_s
        while self._world.loop.time() < end:
            await asyncio.sleep(self._rng.uniform(2, 12))
            verb = self._rng.choice((self._cancel, self._cancel, self._retry, self._reprioritize, self._drain))
            await verb()

    async def _submit(self, batch: str, size: int, start_s: float, rng: Random, **changes: Any) -> None:
        await asyncio.sleep(start_s)
        history = self._world.history
        bodies = [self._body(batch, rng, **changes) for _ in range(size)]
        # Some batches are groups; drawn separately, so that the rest of a run is the same as without.
        project = Random(batch).choice(("a", "b", None, None, None))
        changes = self._turns(batch)
        project = changes.setdefault("project_id", project) if project is not None else None
        bodies = [msgspec.structs.replace(body, **changes) for body in bodies]

        async def send(master: SimMaster) -> Any:
            history.add(past.SubmitSent(history.now, batch, size))
            assert master.master is not None
            if project is not None:
                wanted = GroupRequest(project, batch)
                return await master.master.groups.create_group(wanted, bodies, scope="people", key=batch)
            return await master.master.submit.submit_tasks(bodies, is_atomic=True, scope="people", key=batch)

        try:
            answer = await self.ask(send, rng)
        except OverLimit as exc:
            history.add(past.SubmitRefused(history.now, batch, str(exc)))
            return
        if answer is None:
            return
        accepted = [item for item in answer.items if isinstance(item, Accepted)]
        if len(accepted) == size:
            self.accepted_tasks.extend(item.id for item in accepted)
            history.add(past.SubmitAnswered(history.now, batch, tuple(item.id for item in accepted)))
        else:
            history.add(past.SubmitRefused(history.now, batch, str(answer.items[0])))

    def _turns(self, batch: str) -> dict[str, Any]:
        """Return what is special about a batch, drawn separately from everything else."""
        rng = self._world.loop.rng(f"turns of {batch}")
        changes: dict[str, Any] = {}
        if self.has_stack and rng.random() < 0.4:
            changes["queue"] = STACK
        if self.has_quotas and rng.random() < 0.3:
            changes |= {"project_id": LIMITED, "min_resources": dict(self.reserved)}
        if rng.random() < 0.1:
            changes["categories"] = ["news"]
        return changes

    def _body(self, batch: str, rng: Random, **changes: Any) -> TaskBody:
        fields: dict[str, Any] = {
            "task_type": TASK_TYPE,
            "parameters": draw_parameters(rng),
            "workflow_id": batch,
            "project_id": rng.choice(("a", "b")),
            "priority": rng.randint(1, 10),
            "timeout_s": 30,
            "retry": {"max_retries": rng.randint(0, 4), "base_delay_s": 0.5, "max_delay_s": 5.0},
        }
        if self.accepted_tasks and rng.random() < 0.12:
            chosen = rng.sample(self.accepted_tasks, min(len(self.accepted_tasks), rng.randint(1, 3)))
            fields["depends_on"] = [task_text(task) for task in chosen]
        if rng.random() < 0.06:
            fields["run_at"] = to_text(EPOCH + self._world.loop.now_ms + rng.randint(1_000, 40_000))
        body = task_body(fields | changes)
        assert isinstance(body, TaskBody), body
        return body

    async def _cancel(self) -> None:
        if self.accepted_tasks:
            task = self._rng.choice(self.accepted_tasks)
            await self.ask(lambda master: self._cancel_at(master, task), self._rng)

    async def _cancel_at(self, master: SimMaster, task: TaskId) -> bool:
        assert master.master is not None
        applied = await master.master.task_changes.cancel_tasks([task])
        if task in applied.after:
            history, round_ = self._world.history, self._world.rounds.get(task, 1)
            is_final = applied.after[task] is TaskStatus.CANCELLED
            history.add(past.CancelAnswered(history.now, task, round_, is_final))
        return True

    async def _retry(self) -> None:
        failed = [task for task, status in self._world.ended.items() if status is not TaskStatus.COMPLETED]
        if failed:
            task = self._rng.choice(sorted(failed))
            await self.ask(lambda master: self._retry_at(master, task), self._rng)

    async def _retry_at(self, master: SimMaster, task: TaskId) -> bool:
        assert master.master is not None
        applied = await master.master.task_changes.retry_tasks([task])
        if task in applied.after:
            history = self._world.history
            history.add(past.RetryAnswered(history.now, task, self._world.rounds[task]))
        return True

    async def _reprioritize(self) -> None:
        if self.accepted_tasks:
            task, priority = self._rng.choice(self.accepted_tasks), self._rng.randint(1, 10)

            async def send(master: SimMaster) -> bool:
                assert master.master is not None
                refused = (await master.master.task_changes.reprioritize_tasks([task], priority)).refused
                assert all(refusal.code in _FAIR_REFUSALS for refusal in refused.values()), refused
                return True

            await self.ask(send, self._rng)

    async def _drain(self) -> None:
        node = self._rng.choice(self._world.nodes)
        if node.id and self._rng.random() < 0.4:
            within_s = self._rng.uniform(1, 20)
            if await self.ask(lambda master: _hold(master, node.id, within_s), self._rng):
                await asyncio.sleep(self._rng.uniform(5, 25))
                await self.ask(lambda master: _hold(master, node.id, None), self._rng)

    async def ask(self, send: Callable[[SimMaster], Awaitable[T]], rng: Random) -> T | None:
        """Ask one master after the other until one answers."""
        for _ in range(TRIES):
            masters = self._world.living_masters()
            if masters:
                master = rng.choice(masters)
                assert master.process is not None
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        return await master.process.call(_coroutine(send, master))
                except (TimeoutError, Unavailable, ConnectionResetError):
                    pass
            await asyncio.sleep(rng.uniform(0.2, 2.0))
        return None


_FAIR_REFUSALS = (Code.ALREADY_FINAL, Code.NOT_READY, Code.UNKNOWN_TASK)


def _coroutine(send: Callable[[SimMaster], Awaitable[T]], master: SimMaster) -> Callable[[], Any]:
    async def ask_once() -> T:
        return await send(master)

    return ask_once


async def _hold(master: SimMaster, node: int, within_s: float | None) -> bool:
    assert master.master is not None
    if within_s is None:
        await master.master.node_changes.make_ready(node)
    else:
        await master.master.node_changes.drain_node(node, within_s)
    return True
