"""Standalone installation on one machine: a master in this process and its agents as child processes. They communicate
only by HTTP, so that other nodes may join."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import structlog
import uvloop

from crawlfleet.bootstrap.agent_child import ChildOrder
from crawlfleet.bootstrap.serve import ADMIN_TOKEN, MasterProcess, opened_until_signal
from crawlfleet.bootstrap.worker import EXIT_CONFIG, EXIT_REMOVED, WorkerOptions
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
_RESTART_S = (0.2, 10.0)
_LONG_LIFE_S = 30.0


class Agents:
    """The agents as child processes, each restarted when it ends without a stop being requested.

    An agent whose first start ends with a configuration error is not restarted: `refused` is set, and `refusal` is the
    error. Later such an error may pass (a full disk, say), and the agent is started again.
    """

    def __init__(self, process: MasterProcess, orders: Sequence[ChildOrder]) -> None:
        self._process = process
        self._orders = orders
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._is_leaving = False
        self.refused = asyncio.Event()
        self.refusal: ConfigError | None = None

    @property
    def pids(self) -> list[int]:
        return [self._children[number].pid for number in sorted(self._children)]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, order in enumerate(self._orders):
                group.create_task(self._keep_running(number, order), name=f"agent-{number}")

    async def leave(self) -> None:
        """Stop all agents in good order, and kill those that have not ended within `LEAVE_S`."""
        self._is_leaving = True
        self._signal_children(signal.SIGTERM)
        waits = [asyncio.create_task(child.wait()) for child in self._children.values()]
        if waits:
            await asyncio.wait(waits, timeout=LEAVE_S)
        self._signal_children(signal.SIGKILL)
        await asyncio.gather(*waits)

    async def _keep_running(self, number: int, order: ChildOrder) -> None:
        loop, pause = asyncio.get_running_loop(), _RESTART_S[0]
        code: int | None = None
        while not self._is_leaving:
            began, is_first = loop.time(), code is None
            code = await self._run_agent(number, order, was_removed=code == EXIT_REMOVED)
            if self._must_leave():
                return
            if is_first and code == EXIT_CONFIG:
                self._set_refusal(order)
                return
            # The pause grows, so that an agent that keeps dying does not overload the machine.
            pause = _RESTART_S[0] if loop.time() - began > _LONG_LIFE_S else min(pause * 2, _RESTART_S[1])
            log.warning("agent_ended", agent=number, exit_code=code, restart_in_s=pause)
            await asyncio.sleep(pause)

    def _set_refusal(self, order: ChildOrder) -> None:
        options = order.options
        self.refusal = ConfigError(
            f"the agent {options.name} cannot start in {options.data_dir}: its line not_started, above, has the reason"
        )
        self.refused.set()

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

    async def _run_child(self, number: int, order: ChildOrder) -> int:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "crawlfleet.bootstrap.agent_child", stdin=asyncio.subprocess.PIPE
        )
        self._children[number] = child
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                await child.communicate(msgspec.json.encode(order, enc_hook=str))
            return await child.wait()
        finally:
            if child.returncode is None:
                child.kill()
            del self._children[number]

    def _must_leave(self) -> bool:
        return self._is_leaving

    def _signal_children(self, number: signal.Signals) -> None:
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)


def run_standalone(
    settings: MasterSettings,
    nodes: int,
    slots: int,
    executors: Sequence[str] = (),
    proxy_pools: Mapping[str, list[str]] | None = None,
) -> int:
    configure_logs(settings.log_level, settings.log_format)
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
