"""Samples the gauges of the installation once a minute: how much waits and runs, and how many slots there are."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.control.admin.cluster_report import is_usable
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import WAITING_STATUSES, TaskStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.node_store import NodeStore


class GaugeStore(FigureStore, NodeStore, Protocol):
    """The part of the store that is sampled."""


class GaugeSampler(LeaderLoop):
    name = "gauge_sampler"
    pause_s = 60.0

    def __init__(self, *, store: GaugeStore, clock: Clock, leadership: LeadershipState) -> None:
        super().__init__(clock, leadership)
        self._store = store

    async def run_term(self, term: int, now: Instant) -> None:
        totals = await self._store.task_totals()
        nodes = [node for node in await self._store.load_nodes() if is_usable(node)]
        oldest = await self._store.oldest_ready()
        running = sum(totals.get(status, 0) for status in TaskStatus if status.is_held)
        slots = sum(node.slots for node in nodes)
        values = (
            sum(totals.get(status, 0) for status in WAITING_STATUSES),
            running,
            slots,
            min(running, slots),
            len(nodes),
            0 if oldest is None else max(0, now - oldest),
        )
        await self._store.put_gauges(term, now, values)
