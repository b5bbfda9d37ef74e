"""The watchdog is called by the leader only, and its absence is logged."""

from __future__ import annotations

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.watchdog_pinger import WatchdogPinger
from testkit.clock import FakeClock


async def test_only_a_leader_calls_the_watchdog() -> None:
    calls: list[str] = []

    async def ping() -> str | None:
        calls.append("ping")
        return None if len(calls) > 1 else "no answer"

    leadership = LeadershipState()
    pinger = WatchdogPinger(clock=FakeClock(), leadership=leadership, ping=ping)
    await pinger.run_once(0)
    assert calls == []
    leadership.start_term(1)
    await pinger.run_once(0)
    await pinger.run_once(0)
    assert calls == ["ping", "ping"]


async def test_without_an_address_nothing_is_called() -> None:
    leadership = LeadershipState()
    leadership.start_term(1)
    assert await WatchdogPinger(clock=FakeClock(), leadership=leadership, ping=None).run_once(0) is None
