"""The store holds the truth. Every change of state is one conditional batch transition in one transaction.

Rules every method keeps:
- one transaction, with its events and its counter deltas in it; it returns after the commit is on disk
- a bad item is a Refusal in the answer and changes nothing; the other items are processed
- `term`, where given, is checked inside the transaction: an older term raises NotLeader and writes nothing
- StoreUnavailable: nothing was written. OutcomeUnknown: read the ids again before deciding
"""

from __future__ import annotations

from typing import Protocol

from crawlfleet.observe.metrics import HistogramSet
from crawlfleet.ports.admin_store import AccessStore, ConfigStore
from crawlfleet.ports.alert_store import AlertSampleStore, AlertStore, NoticeStore
from crawlfleet.ports.composite_store import CrawlStore, FlowStore, GroupStore, ProductStore
from crawlfleet.ports.doctor_store import DoctorStore
from crawlfleet.ports.event_store import EventStore, EvidenceStore
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.host_store import HostStore
from crawlfleet.ports.leadership_store import LeadershipStore
from crawlfleet.ports.maintenance_store import CounterStore, RetentionStore
from crawlfleet.ports.metrics_store import MetricsStore
from crawlfleet.ports.node_store import NodeSessionStore, NodeStore
from crawlfleet.ports.project_store import ProjectStore
from crawlfleet.ports.pull_store import PullStore
from crawlfleet.ports.queue_store import PreemptionStore, QueueStore, ReadyTaskStore
from crawlfleet.ports.schedule_store import ScheduleStore
from crawlfleet.ports.task_store import TaskReadStore, TaskStore


class PlacementStore(
    TaskStore, ReadyTaskStore, PreemptionStore, NodeStore, NodeSessionStore, PullStore, ProjectStore, Protocol
):
    """The part for the placement of tasks on nodes, for its loops, its views of the cluster and its explanations."""


class NodeCallStore(TaskStore, NodeStore, NodeSessionStore, PullStore, HostStore, ProjectStore, Protocol):
    """The part for the calls of nodes: register, open a session, sync, heartbeat, pull."""


class CompositeStore(TaskStore, TaskReadStore, GroupStore, FlowStore, CrawlStore, ProductStore, Protocol):
    """The part for groups, flows, crawls and products, with the tasks that they consist of or come from."""


class Store(
    PlacementStore,
    NodeCallStore,
    CompositeStore,
    QueueStore,
    ScheduleStore,
    EventStore,
    EvidenceStore,
    LeadershipStore,
    RetentionStore,
    CounterStore,
    FigureStore,
    MetricsStore,
    AccessStore,
    ConfigStore,
    AlertStore,
    AlertSampleStore,
    NoticeStore,
    DoctorStore,
    Protocol,
):
    """The whole store. Services ask for the part they use."""

    transaction_times: HistogramSet
    """How long transactions take, by kind: write, read, key_read, browse."""

    async def close(self) -> None: ...
