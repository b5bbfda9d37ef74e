"""The store holds the truth. Every change of state is one conditional batch transition in one transaction.

Rules every method keeps:
- one transaction, with its events and its counter deltas in it; it returns after the commit is on disk
- a bad item is a Refusal in the answer and changes nothing; the other items are processed
- `term`, where given, is checked inside the transaction: an older term raises NotLeader and writes nothing
- StoreUnavailable: nothing was written. OutcomeUnknown: read the ids again before deciding
"""

from __future__ import annotations

from typing import Protocol

from crawlfleet.ports.cookie_store import CookieStore
from crawlfleet.ports.crawl_store import CrawlStore
from crawlfleet.ports.daily_quota_store import DailyStore
from crawlfleet.ports.event_store import EventStore
from crawlfleet.ports.evidence import EvidenceStore
from crawlfleet.ports.flow_store import FlowStore
from crawlfleet.ports.group_store import GroupStore
from crawlfleet.ports.host_stats_store import HostFigureStore
from crawlfleet.ports.host_store import HostStore
from crawlfleet.ports.identity import AuditStore, ConfigStore, TokenStore, TypeStore
from crawlfleet.ports.lane_upkeep import LaneUpkeep
from crawlfleet.ports.leadership import Leadership
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.ports.parking import ParkingStore
from crawlfleet.ports.preemptions import Preemptions
from crawlfleet.ports.product_store import ProductStore
from crawlfleet.ports.project_store import ProjectStore
from crawlfleet.ports.proxy_store import ProxyStore
from crawlfleet.ports.reads import Reads
from crawlfleet.ports.ready_tasks import ReadyTasks
from crawlfleet.ports.schedule_store import ScheduleStore
from crawlfleet.ports.slots import SlotStore
from crawlfleet.ports.task_store import TaskStore
from crawlfleet.ports.upkeep import Upkeep


class Store(
    TaskStore,
    ReadyTasks,
    NodeStore,
    Leadership,
    EventStore,
    Upkeep,
    Reads,
    TokenStore,
    AuditStore,
    TypeStore,
    ConfigStore,
    ProjectStore,
    GroupStore,
    EvidenceStore,
    FlowStore,
    ScheduleStore,
    Preemptions,
    SlotStore,
    HostStore,
    ParkingStore,
    DailyStore,
    CrawlStore,
    HostFigureStore,
    ProductStore,
    CookieStore,
    ProxyStore,
    LaneUpkeep,
    Protocol,
):
    """The whole store. Services ask for the part they use."""

    async def close(self) -> None: ...
