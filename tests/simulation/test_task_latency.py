"""A task that finds a free slot is delivered, run and committed without the wait of any timer, whenever it comes.

Time is virtual, so a wait is exact: what is measured is round trips and timers, and no work of this machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from crawlfleet.model.ids import TaskId
from crawlfleet.ports.task_store import Accepted
from crawlfleet.wire.tasks import TaskBody, task_body
from testkit.simulation.run import make_template
from testkit.simulation.world import TASK_TYPE, World
from testkit.virtual_loop import VirtualLoop

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(300)]

GAPS_S = [0.0, *(0.0005 * 1.15**step for step in range(60)), 2.5]
"""From half a millisecond to two seconds in small steps, then longer than a call may be parked."""
ROUND_TRIPS_S = 0.025
"""More than store and network of the simulation take for one task in fair weather, and less than the agent's timers."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("simulation"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize("work_ms", [0, 5, 95, 105, 300])
@pytest.mark.parametrize(("nodes", "seed"), [(1, 1), (1, 2), (2, 3), (2, 6)])
def test_a_task_waits_for_no_timer_whenever_it_comes(
    nodes: int, seed: int, work_ms: int, template: Path, tmp_path: Path
) -> None:
    with VirtualLoop(seed, limit_s=600) as loop:
        world = World(loop, tmp_path, template, masters=1, nodes=nodes)
        waits_s = loop.run(_measure(world, work_ms))
    slow = {f"{gap_s * 1000:.1f} ms": round(wait_s, 4) for gap_s, wait_s in waits_s if wait_s > ROUND_TRIPS_S}
    assert slow == {}, "waited for a timer after these gaps"


async def _measure(world: World, work_ms: int) -> list[tuple[float, float]]:
    """Each gap, and how long the task after it took beyond its work."""
    world.masters[0].start()
    for node in world.nodes:
        node.start()
    # Time enough to elect a leader, to join and to be seen: those do wait for timers.
    await asyncio.sleep(30)
    await _run(world, work_ms)
    waits_s = []
    for gap_s in GAPS_S:
        await asyncio.sleep(gap_s)
        waits_s.append((gap_s, await _run(world, work_ms) - work_ms / 1000))
    return waits_s


async def _run(world: World, work_ms: int) -> float:
    """Submit to committed outcome, for one task."""
    master, process = world.masters[0].master, world.masters[0].process
    assert master is not None
    assert process is not None
    body = task_body({"task_type": TASK_TYPE, "project_id": "a", "parameters": {"ms": work_ms}})
    assert isinstance(body, TaskBody)
    began_at = world.loop.time()
    (item,) = (await process.call(master.submit.submit_tasks, [body])).items
    assert isinstance(item, Accepted)
    await _ended(world, item.id)
    return world.loop.time() - began_at


async def _ended(world: World, task: TaskId) -> None:
    ended = world.loop.create_future()

    def look(_: object) -> None:
        if task in world.ended and not ended.done():
            ended.set_result(None)

    world.on_commit.append(look)
    look(None)
    await ended
    world.on_commit.remove(look)
