"""Calls the watchdog once a minute while this master leads.

A dead installation cannot report itself; a service that misses its calls can.
"""

from __future__ import annotations

from crawlfleet.control.alerts.alert_options import Ping
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock


class WatchdogPinger(LeaderLoop):
    name = "watchdog"
    pause_s = 60.0

    def __init__(self, *, clock: Clock, leadership: LeadershipState, ping: Ping | None) -> None:
        super().__init__(clock, leadership)
        self._ping = ping
        self._problem: str | None = None

    async def run_term(self, term: int, now: Instant) -> object:
        if self._ping is None:
            return None
        problem = await self._ping()
        if problem is not None:
            log.warning("watchdog_unreached", problem=problem)
        elif self._problem is not None:
            log.info("watchdog_reached_again")
        self._problem = problem
        return None
