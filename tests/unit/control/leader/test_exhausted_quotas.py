"""A project's day as the leader and any master see it: nothing is placed, said why, and all goes on after midnight."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.control.loops.preempter import PreemptReport
from crawlfleet.errors import OverLimit
from crawlfleet.model.daily_quota import day_end, utc_day
from crawlfleet.model.execution import End, ParkCause
from crawlfleet.model.ids import TaskId
from crawlfleet.model.project import OnFull, Quotas
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import ErrorClass, TaskStatus
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody, SliceBody, SliceWantBody, SyncDown, SyncUp, UsedBody
from testkit.factories import Kit
from tests.unit.control.test_taking_effect import Installation, Played, begin
from tests.unit.store.store_kit import sqlite_kit

SPENT = "quota 'pages per day' of project shop: 0 of 10 left until 00:00 UTC"


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


class Shop:
    """A project with ten pages a day, and a node that runs its tasks."""

    def __init__(self, one: Installation, node: Played) -> None:
        self.one = one
        self.master = one.master
        self.clock = one.clock
        self.node = node
        self.number = 1_000

    @classmethod
    async def of(cls, kit: Kit, **quotas: Any) -> Shop:
        one = await begin(kit)
        shop = cls(one, await one.online("n", 10))
        await shop.set(**(quotas or {"pages_per_day": 10}))
        return shop

    async def set(self, on_full: OnFull = OnFull.WAIT, **quotas: Any) -> None:
        await self.master.projects.change_project(
            "shop", lambda have: replace(have, quotas=Quotas(**quotas), on_full=on_full)
        )

    async def start(self) -> AssignmentBody:
        """A task of it, on the node."""
        (task,) = await self.one.submit(project_id="shop")
        assert await self.one.dispatch() == 1
        down = await self.node.sync()
        return next(one for one in down.assignments if one.task == task)

    async def ask(self, run: AssignmentBody, number: int, pages: int = 1) -> SliceBody:
        (given,) = (await self.sync(wants=[SliceWantBody(run.task, run.execution, number, pages)])).slices
        return given

    async def sync(self, **fields: Any) -> SyncDown:
        self.number += 1
        held = [row.execution for row in (await self.one.store.held_tasks([self.node.id]))[self.node.id]]
        return await self.master.sync.sync(SyncUp(self.node.id, 1, self.number, 2_000, held, **fields))

    async def spend(self) -> AssignmentBody:
        """All ten pages, by one task that goes on."""
        run = await self.start()
        for number in range(1, 11):
            await self.ask(run, number)
        self.clock.advance(1.5)
        return run

    async def why(self, task: TaskId) -> Any:
        return await self.master.why.explain_task(task)

    async def stage(self) -> None:
        term = self.master.lead.term
        assert term is not None
        await self.master.stager.run_term(term, self.clock.now())


async def test_only_executions_of_projects_with_daily_quotas_are_metered(kit: Kit) -> None:
    shop = await Shop.of(kit, pages_per_day=10)
    assert (await shop.start()).is_metered
    await shop.set(running=5)
    assert not (await shop.start()).is_metered


async def test_wants_are_answered_at_once(kit: Kit) -> None:
    shop = await Shop.of(kit, pages_per_day=80)
    run = await shop.start()
    assert await shop.ask(run, 1, 100) == SliceBody(run.execution, 1, 10, 0)
    assert await shop.ask(run, 1, 100) == SliceBody(run.execution, 1, 10, 0)
    nonsense = [SliceWantBody(run.task, run.execution, number, -5, 1 << 80) for number in (-1, 0, 1 << 40)] + [
        SliceWantBody(1 << 70, -4, 1),
        SliceWantBody(run.task, 99, 1),
    ]
    assert (await shop.sync(wants=nonsense)).slices == []


async def test_a_spent_day_places_nothing_until_midnight(kit: Kit) -> None:
    shop = await Shop.of(kit)
    await shop.spend()
    (task,) = await shop.one.submit(project_id="shop")
    (other,) = await shop.one.submit(project_id="news")
    assert await shop.one.dispatch() == 1
    assert (await shop.one.store.load_tasks([other]))[other].status is TaskStatus.ASSIGNED
    why = await shop.why(task)
    renews_at = "2026-01-02T00:00:00.000Z"
    assert (why.sentence, why.data["cause"]) == (SPENT, "quota")
    assert {name: why.data[name] for name in ("limit", "used", "left", "renews_at", "quota", "project")} == {
        "limit": 10,
        "used": 10,
        "left": 0,
        "renews_at": renews_at,
        "quota": "pages_per_day",
        "project": "shop",
    }
    shop.clock.jump(day_end(utc_day(shop.clock.now())) - shop.clock.now() - 1)
    assert await shop.one.dispatch() == 0
    shop.clock.advance(1.1)
    assert await shop.one.dispatch() == 1, "within a look of midnight"


async def test_a_raised_quota_applies_at_once_and_a_lowered_one_stops_nothing(kit: Kit) -> None:
    shop = await Shop.of(kit)
    run = await shop.spend()
    await shop.one.submit(project_id="shop")
    assert await shop.one.dispatch() == 0
    await shop.set(pages_per_day=5)
    assert await shop.one.dispatch() == 0
    assert (await shop.one.store.load_tasks([run.task]))[run.task].status is TaskStatus.ASSIGNED
    await shop.set(pages_per_day=11)
    assert await shop.one.dispatch() == 1


async def test_what_comes_back_is_placed_again(kit: Kit) -> None:
    shop = await Shop.of(kit)
    run = await shop.spend()
    await shop.one.submit(project_id="shop")
    await shop.sync(outcomes=[OutcomeBody(run.task, run.execution, int(End.COMPLETED), used=UsedBody(9, 0))])
    shop.clock.advance(1.1)
    assert await shop.one.dispatch() == 1


async def test_a_project_that_refuses_says_until_when(kit: Kit) -> None:
    shop = await Shop.of(kit)
    await shop.spend()
    await shop.one.submit(project_id="shop")
    await shop.set(OnFull.REFUSE, pages_per_day=10)
    with pytest.raises(OverLimit, match="0 of 10 left until 00:00 UTC") as refused:
        await shop.one.submit(project_id="shop")
    assert refused.value.retry_after_s == pytest.approx(86_400, abs=10)
    shop.clock.jump(86_400_000)
    await shop.one.submit(project_id="shop")


async def test_a_parked_task_says_so_and_comes_back_when_the_quota_is_raised(kit: Kit) -> None:
    shop = await Shop.of(kit)
    run = await shop.spend()
    parked = OutcomeBody(
        run.task,
        run.execution,
        int(End.RETURNED),
        int(ErrorClass.POLICY),
        SPENT,
        again_ms=3_600_000,
        cause=int(ParkCause.DAILY_QUOTA),
        subject="shop",
        used=UsedBody(10, 0),
    )
    await shop.sync(outcomes=[parked])
    why = await shop.why(run.task)
    assert why.sentence.startswith(f"{SPENT}; is tried again at 2026-01-01T01:")
    assert (why.data["cause"], why.data["left"], why.data["parked"]) == ("daily_quota", 0, 1)
    shop.clock.advance(10)
    await shop.stage()
    assert (await shop.one.store.load_tasks([run.task]))[run.task].status is TaskStatus.WAITING
    await shop.set(pages_per_day=40)
    assert (await shop.why(run.task)).sentence.startswith("waited for its project's day, of which there is enough")
    await shop.stage()
    assert await shop.one.dispatch() == 1
    assert (await shop.one.store.load_tasks([run.task]))[run.task].retries == 0


async def test_nobody_makes_room_for_a_task_that_the_day_holds_back(kit: Kit) -> None:
    shop = await Shop.of(kit)
    await shop.spend()
    await shop.one.submit(9, priority=1, preemptible=True)
    assert await shop.one.dispatch() == 9
    await shop.one.submit(priority=10, project_id="shop")
    term = shop.master.lead.term
    assert term is not None
    for _ in range(2):
        assert await shop.master.preempter.run_term(term, shop.clock.now()) == PreemptReport()
        shop.clock.advance(1.5)


async def test_a_task_of_a_spent_day_is_not_assigned_by_hand(kit: Kit) -> None:
    shop = await Shop.of(kit)
    await shop.spend()
    (task,) = await shop.one.submit(project_id="shop")
    refused = await shop.master.assign.assign_task(task, shop.node.id)
    assert isinstance(refused, Refusal)
    assert refused.detail == SPENT
