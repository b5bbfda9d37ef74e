"""Tasks as people read them: with executions and progress, by filter, counted, and by type."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.tasks.task_reader import TaskReader
from crawlfleet.errors import NotFound
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.task_store import TaskFilter
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit


@pytest_asyncio.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def reader(kit: Kit, broker: MemoryBroker) -> TaskReader:
    return TaskReader(store=kit.store, progress=broker.progress)


async def test_a_task_is_found_by_its_id_or_not_at_all(kit: Kit, reader: TaskReader) -> None:
    task = await kit.submit_one()
    assert (await reader.get_task(task)).id == task
    with pytest.raises(NotFound, match="no task task-"):
        await reader.get_task(task + 1)


async def test_executions_come_oldest_first_whole_or_in_pages(kit: Kit, reader: TaskReader) -> None:
    run = await kit.run_one(await kit.node())
    (execution,) = await reader.list_executions(run.task)
    assert execution.id == run.execution
    assert [record.id for record in await reader.page_executions(run.task, 10)] == [run.execution]
    assert not await reader.page_executions(run.task, 10, run.execution)


async def test_only_running_executions_have_progress(kit: Kit, broker: MemoryBroker, reader: TaskReader) -> None:
    node = await kit.node()
    ended, running = await kit.run(node, 2)
    await kit.complete(ended)
    await broker.progress.put_progress({ended.execution: b"{}", running.execution: b'{"pages":1}'})
    executions = [*await reader.list_executions(ended.task), *await reader.list_executions(running.task)]
    assert await reader.get_progress(executions) == {running.execution: b'{"pages":1}'}
    assert await reader.get_progress([]) == {}


async def test_tasks_are_found_by_filter_and_counted_by_status(kit: Kit, reader: TaskReader) -> None:
    older, newer = await kit.submit(2)
    page = await reader.find_tasks(TaskFilter(statuses=(TaskStatus.PENDING,)), 10)
    assert [record.id for record in page.tasks] == [newer, older]
    page = await reader.find_tasks(TaskFilter(), 1, newer)
    assert [record.id for record in page.tasks] == [older]
    assert (await reader.count_tasks())[TaskStatus.PENDING] == 2
    assert not (await reader.count_tasks("another")).get(TaskStatus.PENDING)


async def test_a_task_that_is_no_step_has_no_collected_result(kit: Kit, reader: TaskReader) -> None:
    assert await reader.get_unrun_result(await kit.submit_one()) is None


async def test_task_types_count_the_connected_nodes_that_run_them(kit: Kit, reader: TaskReader) -> None:
    await kit.store.put_type_names(["echo", "rare"], kit.now)
    await kit.node(task_types=["echo"])
    await kit.join(task_types=["echo", "rare"])
    uses = {use.record.name: use.connected_nodes for use in await reader.list_task_types()}
    assert (uses["echo"], uses["rare"]) == (1, 0)
