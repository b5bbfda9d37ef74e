"""Alerts about failing and slow executions, by executions that really end."""

from __future__ import annotations

import pytest

from crawlfleet.control.alerts.samplers.figures import figure_sample
from crawlfleet.model.execution import End
from crawlfleet.model.figures.task_figures import empty_row, record_execution_end
from crawlfleet.model.status import ErrorClass, ExecutionStatus
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet
from tests.integration.faults.faults_kit import PlayedNode

pytestmark = pytest.mark.integration


async def run_tasks(
    fleet: AlertFleet, node: PlayedNode, good: int, bad: int, seconds: float = 1, **fields: object
) -> None:
    await fleet.tasks(good + bad, retry={"max_retries": 0}, **fields)
    await fleet.dispatch()
    await node.sync()
    for execution in node.held:
        node.start(execution)
    await node.sync()
    fleet.clock.advance(seconds)
    for number, execution in enumerate(list(node.held)):
        if number < good:
            node.end(execution)
        else:
            node.end(execution, End.FAILED, ErrorClass.NETWORK)
    await node.sync()
    await fleet.master.tallier.run_once(fleet.clock.now())


async def begin(store: SqlStore) -> tuple[AlertFleet, PlayedNode]:
    fleet = await AlertFleet.make(store, "ops")
    return fleet, await fleet.node(slots=100, lease_ms=3_600_000)


async def test_a_failure_rate_above_the_threshold_fires_and_clears(store: SqlStore) -> None:
    fleet, node = await begin(store)
    await run_tasks(fleet, node, 15, 4)
    await fleet.watch(80, 2)
    assert await fleet.alert_status("failure_rate") == "ok"  # 19 ends are too few to judge
    await run_tasks(fleet, node, 1, 0)
    await fleet.watch(80, 2)
    [notice] = fleet.service.notices()
    assert (notice.rule, notice.scope, notice.value) == ("failure_rate", "*", 0.2)
    assert notice.why == "4 of 20 executions failed or timed out (all executions)."
    await run_tasks(fleet, node, 80, 0)
    await fleet.watch(500, 5)
    assert fleet.service.heard() == [("firing", "failure_rate"), ("recovered", "failure_rate")]


async def test_a_rule_of_ones_own_judges_one_project(store: SqlStore) -> None:
    fleet, node = await begin(store)
    await fleet.set_rule("failure_rate", is_enabled=False)
    await fleet.set_rule("shop_fails", kind="failure_rate", scope="project:shop", for_s=0, least_samples=5)
    await fleet.set_rule("each_fails", kind="failure_rate", scope="project", for_s=0, least_samples=5)
    await run_tasks(fleet, node, 0, 6, project_id="shop")
    await run_tasks(fleet, node, 6, 0, project_id="calm")
    await fleet.watch(20, 2)
    assert sorted((notice.rule, notice.scope, notice.kind) for notice in fleet.service.notices()) == [
        ("each_fails", "project:shop", "failure_rate"),
        ("shop_fails", "project:shop", "failure_rate"),
    ]


async def test_slow_executions_are_told(store: SqlStore) -> None:
    fleet, node = await begin(store)
    await fleet.set_rule("avg_duration", threshold=60, for_s=0)
    await fleet.set_rule("p95_duration", threshold=60, for_s=0)
    await run_tasks(fleet, node, 20, 0, seconds=100)
    await fleet.watch(20, 2)
    heard = {notice.rule: notice.why for notice in fleet.service.notices()}
    assert heard["avg_duration"] == "20 executions ran 100.0 s on average (all executions)."
    assert set(heard) == {"avg_duration", "p95_duration"}
    fleet.clock.advance(1_000)
    await run_tasks(fleet, node, 30, 0, seconds=1)
    await fleet.watch(60, 5)
    assert await fleet.alert_status("avg_duration") == "ok"
    assert await fleet.alert_status("p95_duration") == "ok"


async def test_the_threshold_of_the_settings_is_the_default(store: SqlStore) -> None:
    fleet, _ = await begin(store)
    await store.put_config("default", {"alert_failure_rate": 0.9}, "ann", fleet.clock.now())
    fleet.clock.advance(2)
    rules = await fleet.master.alert_parts.rules.load_defaults()
    assert rules["failure_rate"].threshold == 0.9
    assert rules["failure_rate"].clear == pytest.approx(0.72)


def test_a_series_without_ends_has_no_value() -> None:
    assert figure_sample("failure_rate", "*", []).value is None
    row = empty_row()
    record_execution_end(row, ExecutionStatus.TIMEOUT, ran_ms=500)
    sample = figure_sample("failure_rate", "type:echo", row)
    assert (sample.value, sample.count) == (1.0, 1)
