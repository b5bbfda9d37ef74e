"""Grants nodes their parts of the budgets of target hosts, so that the sum over all nodes keeps each budget.

A pass reads the reports of sessions on hosts (stored with their renewals) and the notes of masters (refusals, changes
by people), decides every host that changed or is due, commits all of it under the term, and wakes the nodes whose
grants have changed. A session's grants end with its lease: what a silent node holds is free when the reaper has ended
its session, and never before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Protocol

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.evidence_cache import EvidenceCache
from crawlfleet.control.leader.grant_ledger import GrantLedger
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.model.evidence import EvidenceRow, Record
from crawlfleet.model.host import HostNoteKind
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.ports.broker import GRANTS, Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.host_store import GrantChange, HostNote, HostStore
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.scheduling.placement.evidence_subjects import outcome_subjects, url_host

MAX_PAUSE_S = 1.0
MIN_GAP_S, MAX_GAP_S = 0.005, 0.05
"""Bounds of the pause between two passes, however many nodes call: what comes meanwhile is in the next pass. Nodes wait
for each step of a cut and a raise, so a pass that was short is followed soon."""
COUNT_INTERVAL_S = 2.0


class _GrantStore(HostStore, NodeStore, Protocol):
    pass


class Granter(LeaderLoop):
    name = "granter"
    pause_s = MAX_PAUSE_S

    def __init__(
        self,
        *,
        store: _GrantStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        rng: Random,
        configure: Configure,
        evidence: EvidenceCache,
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._configure = configure
        self._evidence_cache = evidence
        self._ledger = GrantLedger(rng)
        self._term: int | None = None
        self._gap_s = MAX_GAP_S
        self._counted_at = clock.monotonic()

    async def wait(self, pause_s: float) -> None:
        if self.leadership.term is None:
            await super().wait(pause_s)
            return
        await asyncio.sleep(self._gap_s)
        due_at = self._ledger.next_due_at()
        left_s = pause_s if due_at is None else min(pause_s, due_at - self._clock.monotonic())
        if left_s > 0:
            await self._broker.signals.wait_for_signal(GRANTS, left_s)

    async def run_term(self, term: int, now: Instant) -> object:
        now_mono = self._clock.monotonic()
        if term != self._term:
            shares = await self._store.all_shares()
            names = {share.host for share in shares}
            self._ledger.load_shares(shares, await self._store.load_hosts(sorted(names)) if names else {}, now_mono)
        # Until the commit is known to have been made, the ledger may differ from the store.
        self._term = None
        change = await self._decide_change(now, now_mono)
        if change:
            learned = await self._store.put_grants(change, term, now)
            if learned:
                self._evidence_cache.apply_folded(learned, term)
            await self._broker.signals.send_signals([node_topic(node) for node, _, _ in change.versions])
        self._term = term
        self._gap_s = pause_after_pass_s(self._clock.monotonic() - now_mono)
        return None

    async def _decide_change(self, now: Instant, now_mono: float) -> GrantChange:
        reports = await self._store.host_look(now)
        change = GrantChange()
        if not (reports.sessions or reports.notes or len(self._ledger)):
            return change
        await self._configure.refresh()
        self._ledger.set_defaults(self._configure.cached_config(DEFAULT_CLUSTER).settings.host_limits)
        if names := self._ledger.unknown_hosts(reports.sessions, reports.notes):
            self._ledger.load_hosts(names, await self._store.load_hosts(sorted(names)), now_mono)
        self._ledger.apply_session_reports(reports.sessions, now_mono)
        self._ledger.apply_host_notes(reports.notes, now, change)
        change.evidence += await self._block_evidence(reports.notes, now)
        if now_mono - self._counted_at >= COUNT_INTERVAL_S:
            self._counted_at = now_mono
            self._ledger.add_request_counts(now, now_mono)
        self._ledger.divide_budgets(now, now_mono, change)
        for event in change.events:
            log.info(event.kind, **event.shared)
        return change

    async def _block_evidence(self, notes: Sequence[HostNote], now: Instant) -> list[EvidenceRow]:
        """Evidence on blocks that executions survived; an execution that ends as blocked is evidence by its end."""
        blocks = [(note.node, url_host(f"//{note.host}")) for note in notes if note.kind is HostNoteKind.BLOCKED]
        if not blocks:
            return []
        nodes = await self._store.load_nodes(sorted({node for node, _ in blocks if node is not None}))
        addresses = {node.id: node.description.address for node in nodes}
        block = Record(blocked=1.0, at=now, last_blocked_at=now)
        return [
            EvidenceRow(node, subject, addresses[node], block)
            for node, host in blocks
            if node is not None and node in addresses
            for subject in outcome_subjects({}, host)
        ]


def pause_after_pass_s(took_s: float) -> float:
    """The pause after a pass: as long as the pass took, within bounds."""
    return min(MAX_GAP_S, max(MIN_GAP_S, took_s))
