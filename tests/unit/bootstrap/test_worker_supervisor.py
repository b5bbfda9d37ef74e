"""The orders of a supervisor's children, and what it does with a node that was removed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawlfleet.bootstrap.agent_child import ChildOrder
from crawlfleet.bootstrap.worker import EXIT_CONFIG, EXIT_REMOVED, WorkerOptions
from crawlfleet.bootstrap.worker_supervisor import WorkerSupervisor, worker_orders
from crawlfleet.errors import ConfigError

OPTIONS = WorkerOptions(masters=["http://m:8000"], data_dir=Path("/data"), name="crew", device_id="dev", slots=3)


def test_each_child_has_a_name_a_handle_and_a_folder_of_its_own() -> None:
    orders = worker_orders(OPTIONS, 2, "info", "json")
    assert [(order.options.name, order.options.device_id, str(order.options.data_dir)) for order in orders] == [
        ("crew-1", "dev-1", "/data/worker-1"),
        ("crew-2", "dev-2", "/data/worker-2"),
    ]
    assert {(order.options.slots, order.log_format) for order in orders} == {(3, "json")}


class EndingSupervisor(WorkerSupervisor):
    code = EXIT_REMOVED

    async def _run_child(self, number: int, order: ChildOrder) -> int:
        return self.code


async def test_a_removed_node_stays_away_and_the_last_one_ends_the_supervisor() -> None:
    supervisor = EndingSupervisor(worker_orders(OPTIONS, 2, "info", "auto"), 1.0)
    await supervisor.run_until_stopped()
    assert sorted(supervisor.removed) == ["crew-1", "crew-2"]


async def test_an_agent_that_cannot_start_ends_all_with_its_error() -> None:
    supervisor = EndingSupervisor(worker_orders(OPTIONS, 2, "info", "auto"), 1.0)
    supervisor.code = EXIT_CONFIG
    with pytest.raises(ConfigError, match=r"crew-[12] cannot start"):
        await supervisor.run_until_stopped()


async def test_a_signal_ends_it() -> None:
    class Endless(WorkerSupervisor):
        async def _run_child(self, number: int, order: ChildOrder) -> int:
            self.handle_signal()
            await asyncio.Event().wait()
            return 0

    await Endless(worker_orders(OPTIONS, 1, "info", "auto"), 0.0).run_until_stopped()
