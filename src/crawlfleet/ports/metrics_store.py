"""Counts of the installation that only its metrics need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Node
from crawlfleet.model.schedule import TickStatus
from crawlfleet.model.status import TaskStatus


class InstallationCounts(NamedTuple):
    """What is counted of tasks is up to two seconds old, as the leader folds it."""

    running: Mapping[str, int]
    """Number of tasks on nodes by project, of the projects that have any."""
    queued: Mapping[tuple[int, TaskStatus], int]
    """Number of tasks on no node by priority and status."""
    held: Mapping[NodeId, int]
    """Number of tasks on each node that has any."""
    dead_letters: int
    hosts_in_backoff: int
    ticks: Mapping[TickStatus, int]
    """Number of ticks by result since the installation began, those that retention removed included."""


class MetricsStore(Protocol):
    """Reads for metrics, made on the connections for people: a scrape never holds up the leader or a node."""

    async def installation_counts(self, now: Instant) -> InstallationCounts: ...

    async def browse_nodes(self) -> list[Node]:
        """Return the nodes that are not removed. The rows are decoded in a thread."""
        ...
