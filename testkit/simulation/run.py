"""The run of one seed: build the world, run it under faults, wait until it is quiet, and judge it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.task_store import TaskFilter
from crawlfleet.store import task_rows
from crawlfleet.store.engine.migrate import migrate_sqlite
from testkit.checker import check
from testkit.figure_recount import stored_figures
from testkit.history import FinalState, HeldSlots, TaskState
from testkit.judge import group_states
from testkit.simulation.doubter import Doubter
from testkit.simulation.faults import Faults
from testkit.simulation.flows import SimFlows, StepWatch
from testkit.simulation.people import LIMITED, People
from testkit.simulation.projects import SimProjects
from testkit.simulation.schedules import SimSchedules
from testkit.simulation.world import World
from testkit.violations import Violation
from testkit.virtual_loop import VirtualLoop

QUIET_S = 20.0
"""Time without events after which nothing more is to come: longer than a lease, and than the pause of any loop that
moves tasks."""
_LOOKS_S = 5.0

Break = Callable[[World], AbstractContextManager[None]]
"""Context manager that makes a deliberately broken variant of the world."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a run."""

    masters: int = 2
    nodes: int = 4
    tasks: int = 160
    """Number of single tasks; those of crowds, flows and schedules are about as many again."""
    faults: int = 10
    busy_s: float = 300.0
    """Virtual time in which work is submitted and faults are injected."""
    total_s: float = 1200.0
    """Virtual time after which the run ends in any case."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one seed."""

    seed: int
    violations: list[Violation]
    error: str | None
    records: int
    """Number of records in the history."""

    @property
    def is_clean(self) -> bool:
        return not self.violations and self.error is None

    def __str__(self) -> str:
        first = self.error or str(self.violations[0])
        more = f" (and {len(self.violations) - 1} more)" if len(self.violations) > 1 else ""
        return f"seed {self.seed}: {first}{more}"


def make_template(folder: Path) -> Path:
    """Make an empty migrated database, to be copied for every seed."""
    path = folder / "template.db"
    migrate_sqlite(path)
    return path


def run_seed(seed: int, template: Path, scale: Scale = Scale(), broken: Break | None = None) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="crawlfleet-sim-", dir=_fast_folder()) as name:
        folder = Path(name)
        with VirtualLoop(seed, limit_s=scale.total_s + 300) as loop:
            world = World(loop, folder, template, masters=scale.masters, nodes=scale.nodes)
            try:
                with broken(world) if broken is not None else nullcontext():
                    final, violations = loop.run(_live(world, scale))
            except Exception as exc:
                return Verdict(seed, [], _error_text(exc), len(world.history))
            return Verdict(seed, [*check(world.history, final), *violations], None, len(world.history))


def _error_text(exc: BaseException) -> str:
    """Describe the first exception that is no group of others."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return f"{type(exc).__name__}: {exc}"


async def _live(world: World, scale: Scale) -> tuple[FinalState, list[Violation]]:
    people = People(world, scale.tasks, scale.busy_s)
    schedules = SimSchedules(world, people, scale.busy_s)
    projects = SimProjects(world, people, scale.busy_s)
    flows, steps = SimFlows(world, people, scale.busy_s), StepWatch(world.engine.look, world)
    world.on_commit.append(steps.committed)
    faults = Faults(world, scale.faults, scale.busy_s)
    doubter = Doubter(world, scale.busy_s)
    for master in world.masters:
        master.start()
    for node in world.nodes:
        node.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(schedules.make())
        group.create_task(projects.make())
        group.create_task(projects.change())
        group.create_task(flows.make())
        group.create_task(people.submit_all())
        group.create_task(people.crowd())
        group.create_task(people.interfere())
        group.create_task(faults.run())
        group.create_task(doubter.run())
        watching = world.loop.create_task(_look_around(world))
    await _quiet(world, scale.total_s)
    watching.cancel()
    judged = [*doubter.violations, *await schedules.violations(), *await flows.violations()]
    violations = [*judged, *steps.violations, *world.watch.at_the_end()]
    return await _final_state(world), violations


async def _look_around(world: World) -> None:
    while True:
        await asyncio.sleep(_LOOKS_S)
        world.watch.look_around()


async def _quiet(world: World, most_s: float) -> None:
    """Wait until nothing has been left to do for some time, at most until `most_s` for what waits for ever."""
    quiet_s = 0.0
    while quiet_s < QUIET_S and world.loop.time() < most_s:
        await asyncio.sleep(_LOOKS_S)
        rows = await world.store.count_rows()
        is_quiet = all(status.is_final for status, count in rows.items() if count)
        quiet_s = quiet_s + _LOOKS_S if is_quiet else 0.0


async def _final_state(world: World) -> FinalState:
    records = {record.id: record for record in await world.store.list_tasks(TaskFilter(), 100_000)}
    letters = {letter.task for letter in await world.store.dead_letters(100_000)}
    master = next(master.master for master in world.masters if master.master is not None)
    tasks: dict[TaskId, TaskState] = {}
    batches: dict[str, list[TaskId]] = {}
    for task, record in records.items():
        spec = msgspec.json.decode(record.spec) if record.spec else {}
        # Defaults are not stored.
        max_retries = spec.get("retry", {}).get("max_retries", 3)
        why = None if record.status.is_final else (await master.why.explain_task(task)).sentence
        tasks[task] = TaskState(
            record.status, record.round, record.retries, record.losses, record.deaths, max_retries, task in letters, why
        )
        batches.setdefault(record.workflow or "", []).append(task)
    limited = world.engine.look("SELECT id, lane FROM live UNION ALL SELECT id, lane FROM done")
    held = await world.store.held_tasks([node.id for node in world.nodes])
    slots = {node.id: HeldSlots(len(held[node.id]), len(node.running)) for node in world.nodes if node.id}
    return FinalState(
        at=world.history.now,
        tasks=tasks,
        batches=batches,
        executions=await _executions(world),
        counters=await world.store.task_totals(),
        rows=await world.store.count_rows(),
        figures=await stored_figures(world.store),
        slots=slots,
        groups=await group_states(world.store),
        reservations=await _reservations(world),
        held_back=frozenset(task for task, lane in limited if world.watch.is_limited(lane)),
    )


async def _reservations(world: World) -> dict[str, float]:
    """Return what projects hold by the store's rows, and by the leader's own count."""
    amounts: dict[str, float] = {}
    uses = {name: report.held for name, report in (await world.store.project_uses()).items()}
    for whose, of in [("", uses)] + [
        (
            " by the leader's count",
            {project: master.master.ledger.project_use(project) for project in ("", "a", "b", LIMITED)},
        )
        for master in world.masters
        if master.leads and master.master is not None
    ]:
        for project, use in of.items():
            amounts[f"what project {project!r} runs{whose}"] = use.running
            amounts |= {f"{name} of project {project!r}{whose}": amount for name, amount in use.reserved.items()}
    return amounts


async def _executions(world: World) -> list[ExecutionRecord]:
    sql = task_rows.all_ended_executions()
    ended = [task_rows.execution_from_row(row) for row in await world.engine.read(lambda tx: tx.fetch(sql))]
    held = await world.store.held_tasks([node.id for node in world.nodes])
    return ended + [
        ExecutionRecord(
            row.execution,
            row.id,
            row.round,
            row.retries,
            row.node,
            row.session,
            None,
            row.assigned_at or 0,
            row.started_at,
            None,
            None,
            None,
            None,
        )
        for rows in held.values()
        for row in rows
    ]


def _fast_folder() -> str | None:
    """Return a folder in memory where the machine has one: the simulation tests order, not disks."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
