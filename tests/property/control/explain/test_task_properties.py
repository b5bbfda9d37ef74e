"""Every waiting task has a true reason: random installations, each asked about all of its tasks."""

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawlfleet.bootstrap.master import Master
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.model.execution import End, ParkCause
from crawlfleet.model.ids import TaskId
from crawlfleet.model.project import Project, Quotas
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ErrorClass, NodeStatus, Recall, TaskStatus
from crawlfleet.ports.queue_store import Preemption
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit, KitClock, ReadyNode, Run
from testkit.true_reasons import untrue

CAUSES = {
    "time",
    "parents",
    "host_backoff",
    "daily_quota",
    "later",
    "retry",
    "queue_paused",
    "quota",
    "turn",
    "no_node",
    "making_room",
    "assigned",
    "processing",
    "recalled",
    "final",
}
RESOURCES = ((), (("cpu", 1.0),), (("cpu", 0.25), ("memory_mb", 512.0)), (("cpu", 64.0),))
PROJECTS, QUEUES = ("p", "q"), ("default", "slow")


class Installation:
    """Does something at random, on tasks, nodes, queues and projects."""

    def __init__(self, kit: Kit, seed: int) -> None:
        self.kit = kit
        self.rng = Random(seed)
        self.tasks: list[TaskId] = []
        self.nodes: list[ReadyNode] = []
        self.verbs = [
            self.submit,
            self.submit,
            self.assign,
            self.assign,
            self.assign,
            self.start,
            self.park,
            self.park,
            self.fail,
            self.cancel,
            self.pause,
            self.quota,
            self.join,
            self.join,
            self.leave,
            self.drain,
            self.preempt,
            self.release,
            self.complete,
        ]

    async def step(self) -> None:
        self.kit.later(self.rng.randrange(3_000))
        await self.rng.choice(self.verbs)()

    async def submit(self) -> None:
        requirement = Requirement(
            self.rng.choice(("echo", "echo", "echo", "rare")),
            resources=self.rng.choice(RESOURCES),
            preemptible=True,
            cluster=self.rng.choice((None, None, "other")),
            categories=self.rng.choice(((), (), ("news",))),
        )
        lane = Lane.with_id(self.rng.choice(QUEUES), self.rng.choice(PROJECTS), self.rng.randint(1, 10), requirement)
        await self.kit.store.ensure_lanes([lane])
        parents = self.rng.sample(self.tasks, min(len(self.tasks), self.rng.choice((0, 0, 1, 2))))
        due_at = self.kit.now + self.rng.randrange(5_000) if self.rng.random() < 0.2 else None
        count = self.rng.randint(1, 3)
        answer = await self.kit.add(
            [self.kit.new_task(lane=lane, parents=parents, due_at=due_at) for _ in range(count)]
        )
        self.tasks += [item.id for item in answer.items if hasattr(item, "id")]

    async def one(self, *statuses: TaskStatus) -> TaskId | None:
        live = await self.kit.store.live_tasks(self.tasks) if self.tasks else {}
        found = sorted(row.id for row in live.values() if row.status in statuses)
        return self.rng.choice(found) if found else None

    async def held(self) -> Run | None:
        task = await self.one(TaskStatus.ASSIGNED, TaskStatus.PROCESSING)
        if task is None:
            return None
        row = await self.kit.live(task)
        return Run(task, row.execution, ReadyNode(row.node, row.session))

    async def assign(self) -> None:
        task = await self.one(TaskStatus.PENDING)
        if task is not None and self.nodes:
            await self.kit.store.assign_tasks(
                [await self.kit.assignment(task, self.rng.choice(self.nodes))], None, self.kit.now
            )

    async def start(self) -> None:
        if (run := await self.held()) is not None:
            await self.kit.start(run)

    async def park(self) -> None:
        if (run := await self.held()) is not None:
            cause = self.rng.choice(list(ParkCause))
            await self.kit.park(run, self.rng.randint(1, 60_000), cause, "" if cause is ParkCause.LATER else "a")

    async def fail(self) -> None:
        if (run := await self.held()) is not None:
            await self.kit.fail(run, error=self.rng.choice((ErrorClass.NETWORK, ErrorClass.INPUT)))

    async def complete(self) -> None:
        if (run := await self.held()) is not None:
            await self.kit.complete(run)

    async def cancel(self) -> None:
        if self.tasks:
            await self.kit.cancel(self.rng.choice(self.tasks))

    async def pause(self) -> None:
        await self.kit.store.set_queue_paused(self.rng.choice(QUEUES), self.rng.random() < 0.3, self.kit.now)

    async def quota(self) -> None:
        limits = Quotas(
            running=self.rng.choice((None, 1, 3)),
            cpu=self.rng.choice((None, 0.5, 2.0)),
            memory_mb=self.rng.choice((None, None, 1_024.0)),
        )

        def change(have: Project) -> Project:
            return Project(have.name, quotas=limits)

        await self.kit.store.change_project(self.rng.choice(PROJECTS), change, self.kit.ids.new_id(), self.kit.now)

    async def join(self) -> None:
        if len(self.nodes) < 6:
            fields = {
                "slots": self.rng.randint(0, 3),
                "task_types": ("echo",),
                "machine": self.rng.choice(("", "m")),
                "resources": self.rng.choice(((), (("cpu", 2.0), ("memory_mb", 1_024.0)))),
                "cluster": self.rng.choice(("default", "default", "other")),
                "capabilities": self.rng.choice(((), (), (("categories", ("news",)),))),
            }
            node = await self.kit.join(**fields)
            if self.rng.random() < 0.9:
                self.nodes.append(await self.kit.online(node))

    async def leave(self) -> None:
        if self.nodes and self.rng.random() < 0.3:
            status = self.rng.choice((NodeStatus.UNRESPONSIVE, NodeStatus.OFFLINE))
            await self.kit.end(self.nodes.pop(self.rng.randrange(len(self.nodes))), status)

    async def drain(self) -> None:
        if self.nodes and self.rng.random() < 0.3:
            await self.kit.store.set_maintenance(
                self.rng.choice(self.nodes).id, self.kit.now + 10_000, True, self.kit.now
            )

    async def preempt(self) -> None:
        run, waiter = await self.held(), await self.one(TaskStatus.PENDING)
        if run is None or waiter is None:
            return
        if self.rng.random() < 0.5:
            one = Preemption(run.task, run.execution, 1, run.node.id, waiter)
            await self.kit.store.preempt_executions([one], await self.kit.term(), self.kit.now)
        else:
            await self.kit.store.change_tasks(
                [run.task], task_state_machine.recall_execution(Recall.MOVE, "moved"), self.kit.now
            )
        if self.rng.random() < 0.3:
            await self.kit.finish(run, End.STOPPED)

    async def release(self) -> None:
        due = await self.kit.store.due_tasks(self.kit.now, 5)
        await self.kit.store.change_tasks(due, task_state_machine.release_due(self.kit.now), self.kit.now)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reasons") / "fleet.sqlite3"
    migrate_sqlite(path)
    return path


async def dispatch(master: Master, term: int, kit: Kit) -> None:
    """As the leader does, until nothing more can be placed."""
    placed = 1
    while placed:
        kit.later(2_000)
        placed = (await master.dispatcher.run_term(term, kit.now)).placed


async def asked(template: Path, seed: int, steps: int) -> Counter[str]:
    """The causes that were told, all of them true."""
    causes: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.sqlite3"
        shutil.copy(template, path)
        engine = InlineEngine(path, synchronous="OFF")
        store = SqlStore(engine)
        kit = await Kit.open(store, store, seed)
        master = Master(
            name="m", boot=99, store=store, broker=MemoryBroker(), clock=KitClock(kit), rng=Random(seed), schemas={}
        )
        installation = Installation(kit, seed)
        for _ in range(steps):
            await installation.step()
        for task in installation.tasks:
            assert await untrue(master, task) is None
            causes[(await master.why.explain_task(task)).data["cause"]] += 1
        await dispatch(master, await kit.term(), kit)
        for task in installation.tasks:
            assert await untrue(master, task) is None
            # The leader had its turns: whoever is left waits for something else.
            assert (await master.why.explain_task(task)).data["cause"] != "turn"
        await engine.close()
    return causes


@settings(max_examples=40, derandomize=True, database=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(5, 60))
@example(seed=1, steps=200)
def test_every_task_says_truly_why_it_is_where_it_is(template: Path, seed: int, steps: int) -> None:
    asyncio.run(asked(template, seed, steps))


def test_random_installations_know_every_cause(template: Path) -> None:
    """Or the property would be about less than it says."""

    async def all_of_them() -> Counter[str]:
        found: Counter[str] = Counter()
        for seed in range(12):
            found += await asked(template, seed, 80)
        return found

    assert set(asyncio.run(all_of_them())) == CAUSES
