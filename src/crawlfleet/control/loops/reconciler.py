"""Compares the slot ledger with the store, corrects it, and logs when it had drifted."""

from __future__ import annotations

from dataclasses import dataclass

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.model.instants import Instant
from crawlfleet.ports.broker import LEADER, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import PlacementStore


@dataclass(frozen=True, slots=True)
class Drift:
    """Differences between the slot ledger and the store."""

    missing: int = 0
    """Executions held in the store and unknown to the ledger."""
    surplus: int = 0
    """Executions held in the ledger only: slots that looked used and were free."""

    def __bool__(self) -> bool:
        return False


class Reconciler(LeaderLoop):
    name = "reconciler"
    pause_s = 5.0
    doubt_pause_s = 1.0
    """Pause while the broker is away or was emptied: no hint tells then which slots became free at other masters."""

    def __init__(
        self, *, store: PlacementStore, broker: Broker, clock: Clock, leadership: LeadershipState, ledger: SlotLedger
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._ledger = ledger
        self.drifted = Drift()
        """Sum of the drift since this master started."""

    async def wait(self, pause_s: float) -> None:
        steps = max(1, round(pause_s / self.doubt_pause_s))
        for _ in range(steps):
            await super().wait(pause_s / steps)
            if self._is_in_doubt():
                return

    def _is_in_doubt(self) -> bool:
        return self._ledger.is_doubted or self._broker.failure_reason is not None

    async def run_term(self, term: int, now: Instant) -> Drift:
        is_in_doubt, self._ledger.is_doubted = self._is_in_doubt(), False
        before = self._ledger.held_pairs()
        nodes = await self._store.load_nodes()
        held = await self._store.held_tasks([node.id for node in nodes])
        rows = {(node, row.execution): row for node, tasks in held.items() for row in tasks}
        after = self._ledger.held_pairs()
        # What changed between the two reads is work in progress; drift is what both agree on.
        surplus = (before & after) - rows.keys()
        missing = rows.keys() - before - after
        if not surplus and not missing:
            return Drift()
        lanes = {lane.id: lane for lane in await self._store.load_lanes(sorted({rows[pair].lane for pair in missing}))}
        for node, execution in missing:
            lane = lanes[rows[node, execution].lane]
            self._ledger.hold_one(node, execution, lane.requirement, self._clock.monotonic(), lane.project)
        self._ledger.release_all(surplus)
        drift = Drift(len(missing), len(surplus))
        self.drifted = Drift(self.drifted.missing + drift.missing, self.drifted.surplus + drift.surplus)
        report = log.info if is_in_doubt else log.warning
        report("ledger_drifted", missing=drift.missing, surplus=drift.surplus)
        if surplus:
            await self._broker.signals.send_signals([LEADER])
        return drift
