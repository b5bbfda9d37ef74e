"""Numbers committed events, and announces the newest number to listeners."""

from __future__ import annotations

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop
from crawlfleet.model.instants import Instant
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EventStore

ROWS = 200


class Relay(LeaderLoop):
    name = "relay"
    pause_s = 0.25

    def __init__(self, *, store: EventStore, broker: Broker, clock: Clock, leadership: LeadershipState) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker

    async def run_term(self, term: int, now: Instant) -> bool:
        """Number one batch; True if there may be more."""
        last = await self._store.relay_events(term, ROWS)
        if last:
            await self._broker.events.announce_event(last)
        return last > 0
