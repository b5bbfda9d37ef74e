"""Reads what the metrics of the installation are made of. All masters read the same store, and get the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.figures import size_classes
from crawlfleet.errors import InvalidInput, StoreUnavailable
from crawlfleet.model.figures.task_figures import ALL, TYPE, SeriesTotal, empty_row
from crawlfleet.model.host_stats import ALL_HOSTS
from crawlfleet.model.host_stats import empty_row as empty_host_row
from crawlfleet.model.node import DEFAULT_CLUSTER, Node
from crawlfleet.model.notice import Severity
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.alert_store import AlertBook, AlertStore
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.host_store import HostStore
from crawlfleet.ports.leadership_store import LeadershipStore
from crawlfleet.ports.metrics_store import InstallationCounts, MetricsStore
from crawlfleet.scheduling.alerts.rule_changes import make_rule
from crawlfleet.scheduling.alerts.rule_kinds import default_rules

STORE_TIMEOUT_S = 2.0
"""Time in seconds for all reads of a scrape together."""


class InstallationStore(FigureStore, HostStore, LeadershipStore, AlertStore, MetricsStore, Protocol):
    """The part of the store that metrics are read from."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The state of the installation at one instant."""

    tasks: Mapping[TaskStatus, int]
    class_sizes: Mapping[str, int]
    oldest_wait_ms: int
    by_type: Mapping[str, SeriesTotal]
    """Totals of task figures by the name of a series of task types."""
    figures: Sequence[int]
    """Totals of task figures of the whole installation."""
    counts: InstallationCounts
    nodes: Sequence[Node]
    host_figures: Sequence[int]
    """Totals of the requests to all target hosts."""
    masters: int
    term: int
    alerts: Mapping[tuple[str, Severity], int]
    """Number of active alerts by rule and severity."""


class InstallationReader:
    def __init__(self, *, store: InstallationStore, clock: Clock, configure: Configure) -> None:
        self._store = store
        self._clock = clock
        self.configure = configure

    async def read_installation(self) -> Installation:
        """Read the installation. Raises Unavailable, also when the store takes too long."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                return await self._read_all()
        except TimeoutError as exc:
            sentence = f"the store did not answer within {STORE_TIMEOUT_S:g} seconds"
            raise StoreUnavailable("a scrape took too long", told=sentence) from exc

    async def _read_all(self) -> Installation:
        store, now = self._store, self._clock.now()
        await self.configure.refresh()
        classes = self.configure.cached_config(DEFAULT_CLUSTER).settings.priority_classes
        counts = await store.installation_counts(now)
        oldest = await store.oldest_ready()
        total = (await store.figure_totals(ALL)).get(ALL)
        hosts = await store.host_total(ALL_HOSTS)
        masters = await store.list_masters(now)
        return Installation(
            tasks=await store.task_totals(),
            class_sizes=size_classes(classes, counts.queued),
            oldest_wait_ms=0 if oldest is None else max(0, now - oldest),
            by_type=await store.figure_totals(TYPE),
            figures=empty_row() if total is None else total.figures,
            counts=counts,
            nodes=await store.browse_nodes(),
            host_figures=empty_host_row() if hosts is None else hosts.figures,
            masters=sum(master.is_alive for master in masters),
            term=(await store.read_leader()).term,
            alerts=_count_active(await store.load_alerts(now)),
        )


def _count_active(book: AlertBook) -> Counter[tuple[str, Severity]]:
    severities = _rule_severities(book)
    active = (state for state in book.states.values() if state.status.is_active)
    return Counter((state.rule, severities.get(state.rule, Severity.WARNING)) for state in active)


def _rule_severities(book: AlertBook) -> dict[str, Severity]:
    defaults = default_rules()
    severities = {name: rule.severity for name, rule in defaults.items()}
    for change in book.rules:
        try:
            severities[change.name] = make_rule(change.name, change.values, defaults).severity
        except InvalidInput:
            # A newer master wrote it; its alerts are still counted.
            severities.setdefault(change.name, Severity.WARNING)
    return severities
