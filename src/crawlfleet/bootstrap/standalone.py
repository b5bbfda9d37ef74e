"""Standalone installation on one machine: a master in this process and its agents as child processes. They communicate
only by HTTP, so that other nodes may join."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import structlog
import uvloop

from crawlfleet.bootstrap.agent_child import ChildOrder
from crawlfleet.bootstrap.child_agents import ChildAgents
from crawlfleet.bootstrap.serve import ADMIN_TOKEN, MasterProcess, opened_until_signal
from crawlfleet.bootstrap.worker import WorkerOptions
from crawlfleet.errors import ConfigError, Unavailable
from crawlfleet.execution.agent.identity import IdentityFile
from crawlfleet.execution.executors.outside.spawn import search_path
from crawlfleet.execution.executors.registry import scan_entries
from crawlfleet.observe.logs import configure_logs
from crawlfleet.settings.master import MasterSettings

log = structlog.get_logger()

DRAIN_S = 8.0
"""Time in seconds that running work may take to end; after that it is handed back."""
LEAVE_S = 12.0
"""Time in seconds that agents have to leave; after that they are killed."""
ENROL_S = 86_400
"""Validity in seconds of an agent's enrol token, which is revoked when the agent ends. It is long because the token has
to outlast a store that is unavailable while the agent joins."""


class Agents(ChildAgents):
    """The agents beside a master: each that has not joined yet gets an enrol token of its own."""

    def __init__(self, process: MasterProcess, orders: Sequence[ChildOrder]) -> None:
        super().__init__(orders)
        self._process = process

    async def leave(self) -> None:
        """Stop all agents in good order, and kill those that have not ended within `LEAVE_S`."""
        await self.leave_within(LEAVE_S)

    async def _run_agent(self, number: int, order: ChildOrder, *, was_removed: bool) -> int:
        if not was_removed and _has_joined(order.options.data_dir):
            return await self._run_child(number, order)
        enrolment = await self._process.create_enrolment(ENROL_S)
        options = replace(order.options, enrol_token=enrolment.secret)
        code = await self._run_child(number, msgspec.structs.replace(order, options=options))
        # While the store is unavailable the token stays, and ends at its expiry date.
        with contextlib.suppress(Unavailable):
            await self._process.master.tokens.revoke_token(enrolment.record.id)
        return code


def run_standalone(
    settings: MasterSettings,
    nodes: int,
    slots: int,
    executors: Sequence[str] = (),
    proxy_pools: Mapping[str, list[str]] | None = None,
) -> int:
    configure_logs(settings.log_level, settings.log_format, settings.log_file)
    return uvloop.run(_run_standalone(settings, nodes, slots, executors, proxy_pools or {}))


async def _run_standalone(
    settings: MasterSettings, nodes: int, slots: int, executors: Sequence[str], proxy_pools: Mapping[str, list[str]]
) -> int:
    if executors:
        # Checked before anything is served: a wrong module would end every agent.
        await asyncio.to_thread(scan_entries, executors, search_path(executors))
    async with opened_until_signal(settings) as process:
        if process is not None:
            token = str(settings.data_dir / ADMIN_TOKEN)
            log.info("standalone_started", address=process.url, admin_token=token, nodes=nodes)
            await run_with_agents(process, local_agents(process, settings, nodes, slots, executors, proxy_pools))
    log.info("standalone_stopped")
    return 0


def local_agents(
    process: MasterProcess,
    settings: MasterSettings,
    nodes: int,
    slots: int,
    executors: Sequence[str] = (),
    proxy_pools: Mapping[str, list[str]] | None = None,
) -> Agents:
    orders = [
        ChildOrder(
            os.getpid(),
            settings.log_level,
            settings.log_format,
            WorkerOptions(
                masters=[process.url],
                name=f"local-{number}",
                slots=slots,
                executors=list(executors),
                data_dir=_node_folder(settings.data_dir, number),
                drain_s=DRAIN_S,
                proxy_pools=proxy_pools or {},
            ),
            settings.log_file,
        )
        for number in range(1, nodes + 1)
    ]
    return Agents(process, orders)


async def run_with_agents(process: MasterProcess, agents: Agents) -> None:
    """Serve until a stop is requested; then the agents leave first, while there is a master to take their reports.

    Raises the ConfigError of an agent that could not start.
    """
    serving = asyncio.create_task(process.serve(), name="serve")
    keeping = asyncio.create_task(agents.run(), name="agents")
    stopping = asyncio.create_task(process.wait_stopped(), name="stopping")
    refused = asyncio.create_task(agents.refused.wait(), name="refused")
    try:
        await asyncio.wait({serving, keeping, stopping, refused}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await agents.leave()
        for task in (keeping, stopping, refused):
            task.cancel()
        process.close()
        ended = await asyncio.gather(serving, keeping, return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
            raise error
    if agents.refusal is not None:
        raise agents.refusal


def _node_folder(data_dir: Path, number: int) -> Path:
    return data_dir / "nodes" / f"local-{number}"


def _has_joined(folder: Path) -> bool:
    """Return whether the agent of this folder has a secret of its own, and needs no enrol token."""
    try:
        identity = IdentityFile(folder).load()
    except ConfigError:
        # The agent ends with this very error before it calls a master.
        return True
    return identity.is_known and not identity.is_registering
