"""All masters over one store, as small as the agent's tests allow: tasks, the session, what each task is held under."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import msgspec

from crawlfleet.model.execution import End
from crawlfleet.model.status import Recall
from crawlfleet.wire.sync import (
    AssignmentBody,
    OpenDown,
    OpenUp,
    OutcomeBody,
    RecallBody,
    SyncDown,
    SyncUp,
    SyncVerdict,
)
from tests.unit.execution.agent.agent_kit import monotonic

LEASE_S = 9.0
TASKS = 60


@dataclass
class Model:
    pending: list[int] = field(default_factory=lambda: list(range(1, TASKS + 1)))
    held: dict[int, int] = field(default_factory=dict)
    """Execution to task, of the open session."""
    recalled: set[int] = field(default_factory=set)
    done: dict[int, tuple[int, End]] = field(default_factory=dict)
    """Task to the execution that ended it, and how."""
    session: int = 0
    is_open: bool = False
    is_draining: bool = False
    renewed_at: float = 0.0
    newest: int = 0
    last_execution: int = 1_000
    goodbyes: int = 0
    reaped: list[set[int]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, outcomes: list[OutcomeBody]) -> list[int]:
        for one in outcomes:
            task = self.held.pop(one.execution, None)
            if task is None:
                continue
            assert task == one.task
            if one.end == End.COMPLETED:
                assert task not in self.done
                self.done[task] = (one.execution, End.COMPLETED)
            elif one.execution in self.recalled and one.end == End.STOPPED:
                self.done[task] = (one.execution, End.STOPPED)
            else:
                self.pending.append(task)
        return [one.execution for one in outcomes]

    def end_session(self) -> None:
        self.is_open = False
        self.pending += self.held.values()
        self.held.clear()

    def reap(self) -> None:
        if self.is_open and monotonic() - self.renewed_at >= LEASE_S:
            self.reaped.append(set(self.held))
            self.end_session()

    def recall_one(self, rng: random.Random) -> None:
        if self.held:
            self.recalled.add(rng.choice(list(self.held)))
            self.changed.set()

    async def open(self, up: OpenUp) -> OpenDown:
        acknowledged = self.take(up.outcomes)
        self.end_session()
        self.session, self.newest, self.is_open, self.renewed_at = self.session + 1, 0, True, monotonic()
        return OpenDown(self.session, round(LEASE_S * 1000), 3_000, acknowledged)

    async def sync(self, up: SyncUp) -> SyncDown:
        if up.session != self.session or not self.is_open:
            return SyncDown(SyncVerdict.SESSION_ENDED, acknowledged=self.take(up.outcomes))
        if up.number < self.newest:
            return SyncDown(SyncVerdict.STALE_NUMBER)
        self.newest, self.renewed_at = up.number, monotonic()
        self.changed.set()
        acknowledged = self.take(up.outcomes)
        if up.is_leaving:
            assert not up.held
            self.goodbyes += 1
            self.end_session()
            return SyncDown(SyncVerdict.OK)
        parks_until = monotonic() + up.wait_ms / 1000
        while True:
            down = self.answer(up, acknowledged)
            left_s = parks_until - monotonic()
            if left_s <= 0 or down != SyncDown(SyncVerdict.OK):
                return down
            self.changed.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self.changed.wait()
            except TimeoutError:
                pass
            if up.number < self.newest or up.session != self.session or not self.is_open:
                return SyncDown(SyncVerdict.STALE_NUMBER)

    def answer(self, up: SyncUp, acknowledged: list[int]) -> SyncDown:
        lacking = [execution for execution in self.held if execution not in up.held]
        recalls = [execution for execution in self.held if execution in self.recalled]
        while self.pending and len(self.held) < up.slots and not (up.is_draining or self.is_draining):
            self.last_execution += 1
            self.held[self.last_execution] = self.pending.pop(0)
            lacking.append(self.last_execution)
        return SyncDown(
            SyncVerdict.OK,
            assignments=[self.assignment(one) for one in lacking if one not in self.recalled],
            recalls=[RecallBody(self.held[one], one, Recall.CANCEL) for one in recalls],
            stops=[one for one in up.held if one not in self.held],
            acknowledged=acknowledged,
            drain_ms=2_000 if self.is_draining else None,
        )

    def assignment(self, execution: int) -> AssignmentBody:
        return AssignmentBody(self.held[execution], execution, "any", msgspec.Raw(b"{}"), 20, 0, 1)
