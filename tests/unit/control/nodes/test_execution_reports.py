"""Reports of simple clients on single executions: fenced, and accepted again after a lost answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.nodes.execution_reports import ExecutionReport, ExecutionReports
from crawlfleet.control.tasks.finish import Finish
from crawlfleet.model.execution import End
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, TaskStatus
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit


@pytest_asyncio.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


@pytest.fixture
def reports(kit: Kit) -> ExecutionReports:
    broker, clock = MemoryBroker(), FakeClock()
    finish = Finish(store=kit.store, broker=broker, clock=clock, rng=Random(1))
    return ExecutionReports(store=kit.store, broker=broker, clock=clock, finish=finish)


async def test_an_execution_starts_and_completes(kit: Kit, reports: ExecutionReports) -> None:
    run = await kit.run_one(await kit.node())
    begun = ExecutionReport(run.task, run.execution, None, progress=b"0.5")
    done = ExecutionReport(run.task, run.execution, End.COMPLETED, result=b"7")
    assert await reports.apply_report(run.node.id, begun) is TaskStatus.PROCESSING
    assert await reports.apply_report(run.node.id, begun) is TaskStatus.PROCESSING
    assert await reports.apply_report(run.node.id, done) is TaskStatus.COMPLETED
    assert await reports.apply_report(run.node.id, done) is TaskStatus.COMPLETED


@pytest.mark.parametrize("end", [None, End.COMPLETED, End.FAILED, End.TIMED_OUT, End.RETURNED])
async def test_another_execution_of_the_task_is_stale(kit: Kit, reports: ExecutionReports, end: End | None) -> None:
    run = await kit.run_one(await kit.node())
    async with kit.unchanged():
        answer = await reports.apply_report(run.node.id, ExecutionReport(run.task, run.execution + 1, end))
    assert isinstance(answer, Refusal)
    assert answer.code is Code.STALE_EXECUTION


@pytest.mark.parametrize("end", [None, End.COMPLETED, End.FAILED])
async def test_the_execution_of_another_node_is_refused(kit: Kit, reports: ExecutionReports, end: End | None) -> None:
    run, other = await kit.run_one(await kit.node()), await kit.node()
    async with kit.unchanged():
        answer = await reports.apply_report(other.id, ExecutionReport(run.task, run.execution, end))
    assert isinstance(answer, Refusal)
    assert answer.code is Code.WRONG_NODE


async def test_an_end_that_was_not_accepted_before_stays_stale(kit: Kit, reports: ExecutionReports) -> None:
    run = await kit.run_one(await kit.node())
    await kit.complete(run)
    other_end = await reports.apply_report(run.node.id, ExecutionReport(run.task, run.execution, End.FAILED))
    other_node = await reports.apply_report(
        (await kit.node()).id, ExecutionReport(run.task, run.execution, End.COMPLETED)
    )
    for answer in (other_end, other_node):
        assert isinstance(answer, Refusal)
        assert answer.code is Code.STALE_EXECUTION


async def test_a_failure_is_tried_again_by_its_class(kit: Kit, reports: ExecutionReports) -> None:
    run = await kit.run_one(await kit.node())
    failed = ExecutionReport(run.task, run.execution, End.FAILED, "away", ErrorClass.NETWORK)
    assert await reports.apply_report(run.node.id, failed) is TaskStatus.RETRYING
    assert await reports.apply_report(run.node.id, failed) is TaskStatus.RETRYING


async def test_a_person_reports_for_the_node_that_has_it(kit: Kit, reports: ExecutionReports) -> None:
    run = await kit.run_one(await kit.node())
    assert await reports.apply_report(None, ExecutionReport(run.task, run.execution, None)) is TaskStatus.PROCESSING
    (pending,) = await kit.submit()
    answer = await reports.apply_report(None, ExecutionReport(pending, run.execution, End.COMPLETED))
    assert isinstance(answer, Refusal)
