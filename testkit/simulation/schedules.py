"""Schedules of the simulation: made before the first fault, and checked tick by tick when all is quiet."""

from __future__ import annotations

from typing import Any

import msgspec

from crawlfleet.model.ids import schedule_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.schedule import Schedule
from crawlfleet.ports.task_store import Claim
from crawlfleet.scheduling.schedules import ticks
from crawlfleet.wire.schedules import ScheduleBody
from testkit.clock import EPOCH
from testkit.simulation.people import People
from testkit.simulation.world import TASK_TYPE, SimMaster, World
from testkit.violations import Invariant, Violation

OVERLAPS = ("allow", "skip", "queue", "cancel_previous")
_DAY_MS = 86_400_000


class SimSchedules:
    """Makes schedules and checks their ticks."""

    def __init__(self, world: World, people: People, busy_s: float) -> None:
        self._world = world
        self._people = people
        self._rng = world.loop.rng("schedules")
        self._ends_at = EPOCH + round(busy_s * 1000)
        self._made: list[Schedule] = []

    async def make(self) -> None:
        """Make one of every kind, each under an idempotency key: a request without an answer is repeated."""
        for number, overlap in enumerate(OVERLAPS):
            body = msgspec.json.decode(msgspec.json.encode(self._schedule_fields(overlap)), type=ScheduleBody)
            claim = Claim("schedules", str(number), overlap.encode(), EPOCH + _DAY_MS)

            async def send(master: SimMaster, body: ScheduleBody = body, claim: Claim = claim) -> Schedule:
                assert master.master is not None
                return (await master.master.schedules.create_schedule(body, by="people", claim=claim)).schedule

            made = await self._people.ask(send, self._rng)
            assert made is not None
            self._made.append(made)

    def _schedule_fields(self, overlap: str) -> dict[str, Any]:
        rng = self._rng
        times: dict[str, Any] = {"cron": "* * * * *"} if rng.random() < 0.3 else {"every_s": rng.randint(30, 60)}
        task = {
            "task_type": TASK_TYPE,
            "parameters": {"ms": rng.randint(50, 20_000)},
            "timeout_s": 30,
            "retry": {"max_retries": 1, "base_delay_s": 0.5, "max_delay_s": 5.0},
        }
        return {
            "task": task,
            "overlap": overlap,
            "catch_up": "all",
            "jitter_s": rng.choice((0, 5)),
            "ends_at": to_text(self._ends_at),
            **times,
        }

    async def violations(self) -> list[Violation]:
        return [violation for schedule in self._made for violation in await self._judged(schedule)]

    async def _judged(self, schedule: Schedule) -> list[Violation]:
        """Check that every instant of the schedule has its tick, fired or skipped: all of them are caught up."""
        store, text = self._world.store, schedule_text(schedule.id)
        stored_ticks = await store.list_ticks(schedule.id, 10_000)
        named = list(ticks.nominal_ticks(schedule.timing, schedule.anchor_at, schedule.created_at))
        tasks = [tick.task for tick in stored_ticks if tick.task is not None]
        stored_tasks = await store.load_tasks(tasks)
        complaints = []
        if lost := sorted(set(named).difference(tick.at for tick in stored_ticks)):
            complaints.append(f"{text} has no tick at {to_text(lost[0])}, nor at {len(lost) - 1} other times")
        if extra := sorted({tick.at for tick in stored_ticks}.difference(named)):
            complaints.append(f"{text} has a tick at {to_text(extra[0])}, which it does not name")
        if len(set(tasks)) != len(tasks) or len(stored_tasks) != len(tasks):
            complaints.append(f"{text} has ticks that share a task, or whose task is gone")
        return [Violation(Invariant.EACH_TICK_ONCE, complaint) for complaint in complaints]
