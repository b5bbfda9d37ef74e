"""Base of all loops: passes with pauses between them; a loop survives every error and logs it.

Tests and people wait for `passes`, a count that rises, instead of sleeping.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar

import structlog

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.errors import CrawlfleetError, NotLeader, Unavailable
from crawlfleet.model.installation.master import LoopFigures
from crawlfleet.model.instants import Instant
from crawlfleet.observe.metrics import Histogram
from crawlfleet.ports.clock import Clock

log = structlog.get_logger()


class Loop(ABC):
    """Runs passes until it is cancelled; `run_once` is one pass."""

    name: ClassVar[str]
    pause_s: ClassVar[float] = 1.0
    away_pause_s: ClassVar[float] = 0.5
    """Pause before the next try when the store did not answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pass_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.passes = 0
        self.passed_at = clock.monotonic()
        """Monotonic time at which the last pass ended; before the first one, when the loop was made."""
        self._pause_s = 0.0
        self.pass_times = Histogram()
        self.last_pass_at: Instant | None = None
        """Instant at which the last pass ended."""
        self.trouble: str | None = None
        """Why the store did not accept the last pass, in words for people."""

    @abstractmethod
    async def run_once(self, now: Instant) -> object:
        """Run one pass. It returns a report of what it did: a true value asks for another pass at once."""

    async def run(self) -> None:
        while True:
            pause_s, trouble = self.pause_s, None
            began = self._clock.monotonic()
            try:
                if await self.run_once(self._clock.now()):
                    pause_s = 0.0
            except Unavailable as exc:
                pause_s, trouble = self.away_pause_s, exc.told
                if self.trouble is None:
                    log.warning("loop_store_away", loop=self.name, error=str(exc))
            except CrawlfleetError as exc:
                self.handle_refusal(exc)
            except Exception:
                # A bug in one pass must not end the loop that all tasks depend on: it is logged, and tried again.
                log.exception("loop_failed", loop=self.name)
            if self.trouble is not None and trouble is None:
                log.info("loop_store_back", loop=self.name)
            self.trouble = trouble
            self.pass_times.observe(self._clock.monotonic() - began)
            self.last_pass_at = self._clock.now()
            self._count_pass(pause_s)
            await self.wait(pause_s)

    @property
    def is_resting(self) -> bool:
        """Whether the loop has nothing to do in this process."""
        return False

    @property
    def figures(self) -> LoopFigures:
        passed_s_ago = self._clock.monotonic() - self.passed_at
        return LoopFigures(round(passed_s_ago, 3), round(max(0.0, passed_s_ago - self._pause_s), 3))

    def handle_refusal(self, exc: CrawlfleetError) -> None:
        log.error("loop_refused", loop=self.name, error=str(exc))

    async def wait(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)

    async def wait_for_passes(self, count: int = 1) -> None:
        """Wait until `count` more passes that begin after now have ended."""
        # The pass under way may have begun before the change that the caller waits for.
        waiter = (self.passes + count + 1, asyncio.get_running_loop().create_future())
        self._pass_waiters.append(waiter)
        try:
            await waiter[1]
        finally:
            self._pass_waiters.remove(waiter)

    def _count_pass(self, pause_s: float) -> None:
        self.passes += 1
        self.passed_at, self._pause_s = self._clock.monotonic(), pause_s
        for target, future in self._pass_waiters:
            if self.passes >= target and not future.done():
                future.set_result(None)


class LeaderLoop(Loop):
    """A loop of the leader: its writes carry the term, and it rests while another master leads."""

    def __init__(self, clock: Clock, leadership: LeadershipState) -> None:
        super().__init__(clock)
        self.leadership = leadership

    @property
    def is_resting(self) -> bool:
        return self.leadership.term is None

    async def run_once(self, now: Instant) -> object:
        term = self.leadership.term
        return None if term is None else await self.run_term(term, now)

    async def wait(self, pause_s: float) -> None:
        if self.leadership.term is None:
            # What the store did not accept was of a term that is over: another master writes now.
            self.trouble = None
            await self.leadership.wait_for_term()
            self.passed_at, self._pause_s = self._clock.monotonic(), 0.0
        else:
            await super().wait(pause_s)

    @abstractmethod
    async def run_term(self, term: int, now: Instant) -> object:
        """Run one pass under `term`."""

    def handle_refusal(self, exc: CrawlfleetError) -> None:
        if isinstance(exc, NotLeader):
            log.warning("term_over", loop=self.name, term=exc.term)
            self.leadership.end_term(exc.term)
        else:
            super().handle_refusal(exc)
