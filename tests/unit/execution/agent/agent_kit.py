"""For the tests of the agent: time that costs nothing, a master to script, work to steer."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec

import msgspec

from crawlfleet.errors import Unavailable
from crawlfleet.execution.agent.agent import Agent, AgentSettings
from crawlfleet.execution.agent.config import AllowHosts, ignore_hosts
from crawlfleet.execution.agent.sync.masters import Masters
from crawlfleet.execution.master_calls.master_directory import MasterDirectory
from crawlfleet.model.execution import End
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Recall
from crawlfleet.ports.transport import MessageTooLarge
from crawlfleet.wire.sync import (
    HANDS_OVER_ONLY,
    AssignmentBody,
    MeasurementBody,
    OpenDown,
    OpenUp,
    OutcomeBody,
    RecallBody,
    SyncDown,
    SyncUp,
    SyncVerdict,
)
from testkit.virtual_loop import VirtualLoop, running_loop

P = ParamSpec("P")
LEASE_MS = 9_000
START_S = 1_000.0
"""Where time begins: a span that is taken for an instant shows."""


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with VirtualLoop(start_s=START_S) as loop:
            loop.run(test(*args, **kwargs))

    return run


def stand_still(seconds: float) -> None:
    running_loop().stand_still(seconds)


def monotonic() -> float:
    return asyncio.get_running_loop().time()


class LoopClock:
    def __init__(self) -> None:
        self._suspended_s = 0.0

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: its clock goes on, and the timers of the loop do not."""
        self._suspended_s += seconds

    def now(self) -> Instant:
        return round(monotonic() * 1000)

    def monotonic(self) -> float:
        return monotonic() + self._suspended_s


def assignment(execution: int, timeout_s: int = 3_600) -> AssignmentBody:
    return AssignmentBody(execution + 1_000, execution, "web_crawl", msgspec.Raw(b"{}"), timeout_s, 0, 1)


def outcome(execution: int, end: End = End.COMPLETED, result: bytes = b"null") -> OutcomeBody:
    return OutcomeBody(task=execution + 1_000, execution=execution, end=end, result=msgspec.Raw(result))


def recall(execution: int, reason: int = Recall.CANCEL) -> RecallBody:
    return RecallBody(execution + 1_000, execution, reason)


@dataclass(eq=False)
class Call:
    """A sync that is under way."""

    up: SyncUp
    at: float
    future: asyncio.Future[SyncDown]

    def reply(self, down: SyncDown | None = None) -> None:
        if not self.future.done():
            self.future.set_result(down or SyncDown(SyncVerdict.OK))

    def fail(self) -> None:
        if not self.future.done():
            self.future.set_exception(Unavailable("cut"))


class Master:
    """Behaves like a master, says what it is told to say, and can be made to fail.

    `is_manual`: it only takes calls, and the test answers each. `is_losing_answers`: it acts, and nothing comes back.
    """

    def __init__(self) -> None:
        self.opens: list[OpenUp] = []
        self.calls: list[Call] = []
        self.taken: list[OutcomeBody] = []
        self.is_manual = self.is_hung = self.is_down = self.is_losing_answers = self.is_minding_order = False
        self.delay_s = 0.0
        self.standing = SyncDown(SyncVerdict.OK)
        """Said in each answer: verdict, drain and slots."""
        self.masters: list[str] = []
        """Said when a session is opened."""
        self.open_error: Exception | None = None
        self.rejection: Exception | None = None
        """What it says to each sync."""
        self.body_bytes: int | None = None
        """The largest message it takes."""
        self.is_behind_proxy = False
        """Whatever is too large is refused by another server."""
        self.line_bytes_s: float | None = None
        """How fast messages come to it."""
        self.session = 100
        self._to_say: list[SyncDown] = []
        self._arrived = asyncio.Event()

    @property
    def parked(self) -> list[Call]:
        return [call for call in self.calls if not call.future.done()]

    @property
    def last(self) -> SyncUp:
        return self.calls[-1].up

    def say(self, **fields: Any) -> None:
        """With the answer to the call that is parked, or else to the next one."""
        self._to_say.append(SyncDown(SyncVerdict.OK, **fields))
        if self.parked and not self.is_manual:
            self._speak(self.parked[-1])

    def give(self, *executions: int, timeout_s: int = 3_600) -> None:
        self.say(assignments=[assignment(execution, timeout_s) for execution in executions])

    def ends(self) -> dict[int, list[End]]:
        ends: dict[int, list[End]] = {}
        for one in self.taken:
            ends.setdefault(one.execution, []).append(End(one.end))
        return ends

    async def open(self, up: OpenUp) -> OpenDown:
        self.opens.append(up)
        await self._pass()
        await self._receive(up)
        if self.open_error is not None:
            raise self.open_error
        if up.after == HANDS_OVER_ONLY or (self.is_minding_order and up.after != self.session):
            return OpenDown(self.session, LEASE_MS, 3_000, self._take(up.outcomes), is_open=False)
        self.session += 1
        return OpenDown(self.session, LEASE_MS, 3_000, self._take(up.outcomes), self.masters)

    async def sync(self, up: SyncUp) -> SyncDown:
        call = Call(up, monotonic(), asyncio.get_running_loop().create_future())
        older = self.parked
        self.calls.append(call)
        self._arrived.set()
        await self._pass()
        await self._receive(up)
        if not self.is_manual:
            for one in older:
                one.reply(SyncDown(SyncVerdict.STALE_NUMBER))
            self._act(call)
        down = await call.future
        if self.is_losing_answers:
            await asyncio.Event().wait()
        return down

    async def next_call(self) -> Call:
        self._arrived.clear()
        await self._arrived.wait()
        return self.calls[-1]

    async def _pass(self) -> None:
        if self.is_down:
            raise Unavailable("down")
        await asyncio.sleep(self.delay_s)
        if self.is_hung:
            await asyncio.Event().wait()

    async def _receive(self, up: OpenUp | SyncUp) -> None:
        if self.rejection is not None and isinstance(up, SyncUp):
            raise self.rejection
        size = len(msgspec.json.encode(up))
        if self.line_bytes_s is not None:
            await asyncio.sleep(size / self.line_bytes_s)
        if self.body_bytes is not None and size > self.body_bytes:
            raise MessageTooLarge(f"{size} bytes", is_from_master=not self.is_behind_proxy)

    def _act(self, call: Call) -> None:
        acknowledged = self._take(call.up.outcomes)
        if self._to_say or acknowledged or call.up.is_leaving:
            self._speak(call, acknowledged)
        else:
            asyncio.get_running_loop().call_later(call.up.wait_ms / 1000, lambda: call.reply(self.standing))

    def _take(self, outcomes: list[OutcomeBody]) -> list[int]:
        self.taken += [one for one in outcomes if one.execution not in {known.execution for known in self.taken}]
        return [one.execution for one in outcomes]

    def _speak(self, call: Call, acknowledged: list[int] | None = None) -> None:
        said, self._to_say = self._to_say, []
        fields = {k: [one for down in said for one in getattr(down, k)] for k in ("assignments", "recalls", "stops")}
        call.reply(msgspec.structs.replace(self.standing, acknowledged=acknowledged or [], **fields))


@dataclass(eq=False)
class Work:
    """An executor whose executions run until they are told how to end."""

    run_s: float | None = None
    """Complete by itself after this span."""
    dying_s: float = 0.0
    """How long a cancelled execution takes to be gone."""
    runs: list[int] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    most_alive: int = 0
    cancelled_at: dict[int, float] = field(default_factory=dict)
    _ends: dict[int, asyncio.Future[OutcomeBody]] = field(default_factory=dict)

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        execution = assignment.execution
        self.runs.append(execution)
        self.alive.add(execution)
        self.most_alive = max(self.most_alive, len(self.alive))
        self._ends[execution] = asyncio.get_running_loop().create_future()
        if self.run_s is not None:
            asyncio.get_running_loop().call_later(self.run_s, self.end, execution)
        try:
            return await self._ends[execution]
        except asyncio.CancelledError:
            self.cancelled_at[execution] = monotonic()
            if self.dying_s:
                await asyncio.sleep(self.dying_s)
            raise
        finally:
            self.alive.discard(execution)

    def end(self, execution: int, said: OutcomeBody | None = None) -> None:
        future = self._ends[execution]
        if not future.done():
            future.set_result(said or outcome(execution, result=b'{"pages":1}'))

    def crash(self, execution: int, error: Exception) -> None:
        self._ends[execution].set_exception(error)


@dataclass(eq=False)
class Node:
    agent: Agent
    master: Master
    work: Work
    running: asyncio.Task[Any]
    events: list[tuple[float, str, dict[str, object]]]

    def said(self, name: str) -> list[dict[str, object]]:
        return [data for _, said, data in self.events if said == name]

    def ended(self) -> dict[object, list[object]]:
        ends: dict[object, list[object]] = {}
        for data in self.said("execution_ended"):
            ends.setdefault(data["execution"], []).append(data["end"])
        return ends

    async def kill(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])


def _masters_by_address(addresses: Sequence[str], reachable: Mapping[str, Master]) -> Masters:
    return Masters(MasterDirectory(addresses), reachable.__getitem__, random.Random(1))


@asynccontextmanager
async def node(
    directory: Path,
    *masters: Master,
    slots: int = 4,
    work: Work | None = None,
    executor: Any = None,
    allow_hosts: AllowHosts = ignore_hosts,
    clock: LoopClock | None = None,
    addresses: Sequence[str] = (),
    reachable: Mapping[str, Master] | None = None,
    **settings: Any,
) -> AsyncIterator[Node]:
    """An agent that runs, killed at the end if it still does. It has a session, and its first sync is parked.

    With `reachable`, masters by their addresses, it is configured with `addresses` of them.
    """
    events: list[tuple[float, str, dict[str, object]]] = []
    work = work or Work()
    agent = Agent(
        AgentSettings(7, "secret", directory, slots, ["web_crawl"], is_outbox_synced=False, **settings),
        masters if reachable is None else _masters_by_address(addresses, reachable),
        executor or work,
        clock=clock or LoopClock(),
        rng=random.Random(1),
        measure=MeasurementBody,
        on_event=lambda name, data: events.append((monotonic(), str(name), data)),
        allow_hosts=allow_hosts,
    )
    one = Node(agent, masters[0], work, asyncio.get_running_loop().create_task(agent.run()), events)
    try:
        await asyncio.sleep(0.001)
        yield one
    finally:
        await one.kill()
        if not one.running.cancelled():
            one.running.result()
