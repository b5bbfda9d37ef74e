"""Masters add, move and drop tasks in any order while leaders change and sweep: no task is ever without its lane."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from crawlfleet.control.leader import lane_sweep
from crawlfleet.control.leader.lane_sweep import STEP_EVERY_S, LaneSweep
from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.ports.maintenance_store import LANE_FRESH_S
from crawlfleet.ports.task_store import Submission
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.store import SqlStore
from testkit.clock import FakeClock
from testkit.factories import Kit

SEEDS, STEPS = 40, 300
LANES = [Lane.with_id("default", "shop", priority, Requirement("echo")) for priority in range(1, 7)]
WITHOUT_A_LANE = (
    "SELECT t.id FROM (SELECT id, lane FROM live UNION ALL SELECT id, lane FROM done) AS t "
    "WHERE NOT EXISTS (SELECT 1 FROM lane WHERE lane.id = t.lane)"
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "fleet.sqlite3"
    migrate_sqlite(path)
    return path


class Cluster:
    def __init__(self, engine: InlineEngine, kit: Kit, rng: Random) -> None:
        self.engine = engine
        self.kit = kit
        self.rng = rng
        self.clock = FakeClock()
        self.masters = [SqlStore(engine, self.clock.monotonic) for _ in range(3)]
        self.ensured: set[tuple[int, Lane]] = set()
        """Which master ensured which lane at some time: it never does so again."""
        self.tasks: list[TaskId] = []
        self.removed = 0

    async def begin(self) -> None:
        self.term = await self.kit.term()
        self.sweep = LaneSweep(store=self.masters[0], clock=self.clock, few=0)

    async def step(self) -> None:
        verbs = [self.add, self.add, self.move, self.drop, self.drop, self.pass_time, self.sweep_on, self.sweep_on]
        if self.rng.random() < 0.03:
            await self.change_leader()
        await self.rng.choice(verbs)()

    async def _ensure(self, master: int, lane: Lane) -> None:
        if (master, lane) not in self.ensured:
            await self.masters[master].ensure_lanes([lane])
            self.ensured.add((master, lane))

    async def add(self) -> None:
        master, lane = self.rng.randrange(3), self.rng.choice(LANES)
        await self._ensure(master, lane)
        task = self.kit.new_task(lane=lane)
        if self.rng.random() < 0.1:
            await self.pass_time()
        await self.masters[master].add_tasks([Submission([task])], self.kit.now)
        self.tasks.append(task.id)

    async def move(self) -> None:
        if self.tasks:
            master, lane = self.rng.randrange(3), self.rng.choice(LANES)
            await self._ensure(master, lane)
            decide = task_state_machine.change_lane({one.id: lane.id for one in LANES})
            await self.masters[master].change_tasks([self.rng.choice(self.tasks)], decide, self.kit.now)

    async def drop(self) -> None:
        if self.tasks:
            task = self.tasks.pop(self.rng.randrange(len(self.tasks)))
            store = self.rng.choice(self.masters)
            await store.change_tasks([task], task_state_machine.cancel_task("enough"), self.kit.now)
            await store.drop_tasks([task], self.kit.now)

    async def pass_time(self) -> None:
        self.clock.advance(self.rng.choice([STEP_EVERY_S, 600, LANE_FRESH_S - 1, 2 * LANE_FRESH_S]))

    async def sweep_on(self) -> None:
        before = await self.masters[0].lane_ids(-1, 100)
        await self.sweep.advance(self.term)
        self.removed += len(before) - len(await self.masters[0].lane_ids(-1, 100))
        self.clock.advance(STEP_EVERY_S)

    async def change_leader(self) -> None:
        term = await self.masters[0].campaign("another", await self.masters[0].read_leader(), self.kit.now)
        assert term is not None
        self.term = term
        self.sweep = LaneSweep(store=self.rng.choice(self.masters), clock=self.clock, few=0)


async def test_no_task_is_without_its_lane(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_sweep, "WINDOW", 2)
    monkeypatch.setattr(lane_sweep, "WINDOWS", 1)
    removed = 0
    for seed in range(SEEDS):
        path = tmp_path / f"{seed}.sqlite3"
        shutil.copy(template, path)
        engine = InlineEngine(path)
        store = SqlStore(engine)
        cluster = Cluster(engine, await Kit.open(store, store), Random(seed))
        await cluster.begin()
        for step in range(STEPS):
            await cluster.step()
            assert await engine.read(lambda tx: tx.fetch(WITHOUT_A_LANE)) == [], f"seed {seed}, step {step}"
        removed += cluster.removed
        await engine.close()
    assert removed > SEEDS
