"""Many agents on one machine below one supervisor process: a child that dies is started again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import structlog
import uvloop

from crawlfleet.bootstrap.agent_child import ChildOrder
from crawlfleet.bootstrap.child_agents import ChildAgents
from crawlfleet.bootstrap.worker import EXIT_REMOVED, HURRY_S, WorkerOptions
from crawlfleet.execution.executors.outside.spawn import search_path
from crawlfleet.execution.executors.registry import scan_entries
from crawlfleet.observe.logs import configure_logs

log = structlog.get_logger()

LEAVE_MARGIN_S = 5.0
"""Time in seconds beyond the drain that a child has to leave; after that it is killed."""


class WorkerSupervisor(ChildAgents):
    """Agents that leave by signals: the first lets their work end, the second hands it back at once, and
    the third kills them."""

    def __init__(self, orders: Sequence[ChildOrder], drain_s: float) -> None:
        super().__init__(orders)
        self._drain_s = drain_s
        self._signals = 0
        self._stop_requested = asyncio.Event()
        self.removed: list[str] = []
        """Names of the agents whose nodes were removed by the masters: they cannot join again by themselves."""

    async def run_until_stopped(self) -> None:
        """Run until a stop is requested, until all nodes were removed, or until an agent cannot start at all. Raises
        the ConfigError of that agent."""
        running = asyncio.create_task(self.run(), name="agents")
        ends = [
            asyncio.create_task(self._stop_requested.wait(), name="stopping"),
            asyncio.create_task(self.refused.wait(), name="refused"),
        ]
        try:
            await asyncio.wait({running, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self.leave_within(self._drain_s + LEAVE_MARGIN_S)
            for task in (running, *ends):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await running
        if self.refusal is not None:
            raise self.refusal

    def handle_signal(self) -> None:
        self._signals += 1
        match self._signals:
            case 1:
                log.info("workers_leaving", within_s=self._drain_s, hint="a second Ctrl-C hands running tasks back")
                self._stop_requested.set()
            case 2:
                log.info("workers_leaving", within_s=HURRY_S)
                self.signal_children(signal.SIGTERM)
                loop = asyncio.get_running_loop()
                loop.call_later(HURRY_S + LEAVE_MARGIN_S, self.signal_children, signal.SIGKILL)
            case _:
                self.signal_children(signal.SIGKILL)

    def _may_restart(self, order: ChildOrder, code: int) -> bool:
        if code != EXIT_REMOVED:
            return True
        self.removed.append(order.options.name)
        return False


def worker_orders(
    options: WorkerOptions, count: int, log_level: str, log_format: str, log_file: Path | None = None
) -> list[ChildOrder]:
    """Return an order for each agent: a name, a handle and a folder of its own, and everything else as given."""
    return [
        ChildOrder(
            os.getpid(),
            log_level,
            log_format,
            replace(
                options,
                name=f"{options.name}-{number}",
                device_id=None if options.device_id is None else f"{options.device_id}-{number}",
                data_dir=options.data_dir / f"worker-{number}",
            ),
            log_file,
        )
        for number in range(1, count + 1)
    ]


def run_workers(
    options: WorkerOptions, count: int, log_level: str, log_format: str, log_file: Path | None = None
) -> int:
    """Run agents until a signal, and return the exit code of the process."""
    configure_logs(log_level, log_format, log_file)
    return uvloop.run(_run_workers(options, worker_orders(options, count, log_level, log_format, log_file)))


async def _run_workers(options: WorkerOptions, orders: Sequence[ChildOrder]) -> int:
    if options.executors:
        # Checked once, before any agent: a wrong module would end every one of them.
        await asyncio.to_thread(scan_entries, options.executors, search_path(options.executors))
    supervisor = WorkerSupervisor(orders, options.drain_s)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.handle_signal)
    log.info("workers_started", count=len(orders), masters=options.masters, pid=os.getpid())
    await supervisor.run_until_stopped()
    log.info("workers_stopped")
    if len(supervisor.removed) == len(orders):
        log.error("removed", hint="all nodes were removed: join again with a new enrol token")
        return EXIT_REMOVED
    return 0
