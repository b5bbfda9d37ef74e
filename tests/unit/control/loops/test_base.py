"""Loops: they outlive every error, step down for a newer term, and can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop, Loop
from crawlfleet.errors import Conflict, NotLeader, OutcomeUnknown, StoreUnavailable
from crawlfleet.model.installation.master import LoopFigures
from crawlfleet.model.instants import Instant
from testkit.clock import EPOCH, FakeClock

Pass = Callable[[], object]


class Scripted:
    """Passes as told, then empty ones for ever; pauses are noted instead of slept."""

    def __init__(self, *passes: object) -> None:
        self.script = list(passes)
        self.pauses: list[float] = []
        self.moments: list[Instant] = []

    def next(self, now: Instant) -> object:
        self.moments.append(now)
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            raise step
        return step

    async def rest(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        await asyncio.sleep(0)


class PlainLoop(Loop):
    name = "plain"
    pause_s = 7.0
    away_pause_s = 0.25

    def __init__(self, *passes: object) -> None:
        super().__init__(FakeClock())
        self.scripted = Scripted(*passes)

    async def run_once(self, now: Instant) -> object:
        return self.scripted.next(now)

    async def wait(self, pause_s: float) -> None:
        await self.scripted.rest(pause_s)


class LedLoop(LeaderLoop):
    name = "led"
    pause_s = 0.0

    def __init__(self, lead: LeadershipState, *passes: object) -> None:
        super().__init__(FakeClock(), lead)
        self.scripted = Scripted(*passes)
        self.terms: list[int] = []

    async def run_term(self, term: int, now: Instant) -> object:
        self.terms.append(term)
        return self.scripted.next(now)


@asynccontextmanager
async def running(loop: Loop) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(loop.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def passed(loop: Loop, count: int) -> None:
    async with asyncio.timeout(10):
        await loop.wait_for_passes(count)


async def test_a_loop_outlives_every_error() -> None:
    errors = [ValueError("a bug"), StoreUnavailable("away"), Conflict("no"), ZeroDivisionError(), NotLeader(3)]
    loop = PlainLoop(*errors)
    async with running(loop) as task:
        await passed(loop, len(errors) + 1)
        assert not task.done()
    assert loop.scripted.script == []
    assert loop.passes > len(errors)


async def test_a_pass_that_asks_for_more_is_followed_at_once_and_others_after_a_pause() -> None:
    loop = PlainLoop(True, 0, ["something"], None)
    async with running(loop):
        await passed(loop, 4)
    assert loop.scripted.pauses[:4] == [0.0, 7.0, 0.0, 7.0]
    assert loop.scripted.moments[0] == EPOCH


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutcomeUnknown("who knows")])
async def test_a_loop_whose_store_is_away_tries_again_after_its_own_pause(error: Exception) -> None:
    loop = PlainLoop(error, ValueError("a bug"), Conflict("no"))
    async with running(loop):
        await passed(loop, 3)
    assert loop.scripted.pauses[:3] == [0.25, 7.0, 7.0]


async def test_a_loop_that_is_cancelled_ends() -> None:
    loop = PlainLoop()
    async with running(loop) as task:
        await passed(loop, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_waiting_for_passes_means_passes_that_begin_after_now() -> None:
    loop = PlainLoop()
    waiting = [asyncio.create_task(loop.wait_for_passes(count)) for count in (1, 3)]
    await asyncio.sleep(0)
    ended = []
    for number in range(1, 6):
        loop._count_pass(0.0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ended.append([task.done() for task in waiting])
        assert loop.passes == number
    # The first pass may have been under way already.
    assert ended == [[False, False], [True, False], [True, False], [True, True], [True, True]]


async def test_the_figures_of_a_loop_tell_when_it_passed_and_how_long_its_next_pass_takes() -> None:
    loop = PlainLoop()
    clock = loop._clock
    assert isinstance(clock, FakeClock)
    clock.advance(3.0)
    assert loop.figures == LoopFigures(3.0, 3.0), "the first pass is due at once"
    loop._count_pass(7.0)
    clock.advance(6.0)
    assert loop.figures == LoopFigures(6.0, 0.0)
    clock.advance(6.0)
    assert loop.figures == LoopFigures(12.0, 5.0)


async def test_a_leaders_loop_at_rest_is_not_late_when_its_term_begins() -> None:
    lead = LeadershipState()
    loop = LedLoop(lead)
    clock = loop._clock
    assert isinstance(clock, FakeClock)
    async with running(loop):
        await asyncio.sleep(0)
        resting = [loop.is_resting]
        clock.advance(3_600.0)
        lead.start_term(4)
        await passed(loop, 1)
        resting.append(loop.is_resting)
        assert loop.figures == LoopFigures(0.0, 0.0)
    assert resting == [True, False]


async def test_who_stops_waiting_is_forgotten() -> None:
    loop = PlainLoop()
    waiting = asyncio.create_task(loop.wait_for_passes())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert loop._pass_waiters == []
    loop._count_pass(0.0)


async def test_a_leaders_loop_rests_while_somebody_else_leads() -> None:
    lead = LeadershipState()
    loop = LedLoop(lead)
    async with running(loop):
        for _ in range(20):
            await asyncio.sleep(0)
        assert loop.terms == []
        assert loop.passes <= 1
        lead.start_term(4)
        await passed(loop, 1)
    assert set(loop.terms) == {4}


async def test_a_refused_term_is_stepped_down_from_and_a_new_one_taken_up() -> None:
    lead = LeadershipState()
    lead.start_term(3)
    loop = LedLoop(lead, None, NotLeader(3))
    async with running(loop):
        async with asyncio.timeout(10):
            while lead.term is not None:  # noqa: ASYNC110
                await asyncio.sleep(0)
        lead.start_term(9)
        await passed(loop, 1)
    assert loop.terms[:3] == [3, 3, 9]


class DeposedLoop(LedLoop):
    """Loses the lead in the middle of a pass that its store does not take."""

    async def run_term(self, term: int, now: Instant) -> object:
        self.leadership.end_term(term)
        raise StoreUnavailable("away")


async def test_a_loop_that_no_longer_leads_has_no_trouble() -> None:
    """A master would be called unavailable for as long as another one leads."""
    lead = LeadershipState()
    lead.start_term(3)
    loop = DeposedLoop(lead)
    async with running(loop):
        async with asyncio.timeout(10):
            while loop.passes == 0:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert loop.trouble is None


async def test_the_end_of_an_older_term_does_not_end_the_one_that_was_won_since() -> None:
    lead = LeadershipState()
    lead.start_term(5)
    loop = LedLoop(lead, NotLeader(4), Conflict("something else"), StoreUnavailable("away"), ValueError())
    async with running(loop):
        await passed(loop, 1)
        assert lead.term == 5


def test_a_lead_is_lost_by_name_or_whichever_it_is() -> None:
    lead, seen = LeadershipState(), list[int | None]()
    lead.start_term(2)
    for lost in (1, 2):
        lead.end_term(lost)
        seen.append(lead.term)
    lead.start_term(3)
    lead.end_term()
    assert [*seen, lead.term] == [2, None, None]


async def test_who_waits_to_lead_is_woken_when_it_does() -> None:
    lead = LeadershipState()
    waiting = asyncio.create_task(lead.wait_for_term())
    await asyncio.sleep(0)
    assert not waiting.done()
    lead.start_term(1)
    async with asyncio.timeout(10):
        await waiting
        await lead.wait_for_term()
    lead.end_term()
    again = asyncio.create_task(lead.wait_for_term())
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()
