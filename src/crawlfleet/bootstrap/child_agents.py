"""Agents as child processes: started again when they die, stopped in good order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence

import msgspec
import structlog

from crawlfleet.bootstrap.agent_child import ChildOrder
from crawlfleet.bootstrap.worker import EXIT_CONFIG, EXIT_REMOVED
from crawlfleet.errors import ConfigError

log = structlog.get_logger()

_RESTART_S = (0.2, 10.0)
_LONG_LIFE_S = 30.0


class ChildAgents:
    """The agents as child processes, each restarted when it ends without a stop being requested.

    An agent whose first start ends with a configuration error is not restarted: `refused` is set, and `refusal` is the
    error. Later such an error may pass (a full disk, say), and the agent is started again.
    """

    def __init__(self, orders: Sequence[ChildOrder]) -> None:
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

    async def leave_within(self, seconds: float) -> None:
        """Stop all agents in good order, and kill those that have not ended within this span."""
        self._is_leaving = True
        self.signal_children(signal.SIGTERM)
        waits = [asyncio.create_task(child.wait()) for child in self._children.values()]
        if waits:
            await asyncio.wait(waits, timeout=seconds)
        self.signal_children(signal.SIGKILL)
        await asyncio.gather(*waits)

    def signal_children(self, number: signal.Signals) -> None:
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)

    async def _run_agent(self, number: int, order: ChildOrder, *, was_removed: bool) -> int:
        """Run an agent to its end, and return its exit code; `was_removed` when masters had removed its node."""
        return await self._run_child(number, order)

    def _may_restart(self, order: ChildOrder, code: int) -> bool:
        return True

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
            if not self._may_restart(order, code):
                return
            # The pause grows, so that an agent that keeps dying does not overload the machine.
            pause = _RESTART_S[0] if loop.time() - began > _LONG_LIFE_S else min(pause * 2, _RESTART_S[1])
            log.warning("agent_ended", agent=order.options.name, exit_code=code, restart_in_s=pause)
            await asyncio.sleep(pause)

    def _set_refusal(self, order: ChildOrder) -> None:
        options = order.options
        self.refusal = ConfigError(
            f"the agent {options.name} cannot start in {options.data_dir}: its line not_started, above, has the reason"
        )
        self.refused.set()

    async def _run_child(self, number: int, order: ChildOrder) -> int:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "crawlfleet.bootstrap.agent_child", stdin=asyncio.subprocess.PIPE
        )
        self._children[number] = child
        if self._must_leave():
            # The stop came while the process was being started, and did not reach it.
            child.kill()
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
