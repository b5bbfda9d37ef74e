"""The store over an engine: all aggregates in one class."""

from __future__ import annotations

from collections.abc import Callable

from crawlfleet.ports.clock import boot_time
from crawlfleet.store.admin.audit import AuditTables
from crawlfleet.store.admin.cluster_config import ConfigTables
from crawlfleet.store.admin.counters import UpkeepTables
from crawlfleet.store.admin.events import EventTables
from crawlfleet.store.admin.evidence import EvidenceTables
from crawlfleet.store.admin.retention import RetentionTables
from crawlfleet.store.admin.tokens import TokenTables
from crawlfleet.store.composites.crawls import CrawlTables
from crawlfleet.store.composites.flows import FlowTables
from crawlfleet.store.composites.groups import GroupTables
from crawlfleet.store.composites.products import ProductTables
from crawlfleet.store.composites.schedule_firing import FireTables
from crawlfleet.store.composites.schedules import ScheduleTables
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.hosts.cookie_jars import CookieTables
from crawlfleet.store.hosts.host_stats import HostFigureTables
from crawlfleet.store.hosts.hosts import HostTables
from crawlfleet.store.nodes.cluster_removal import ClusterRemovalTables
from crawlfleet.store.nodes.id_slots import IdSlotTables
from crawlfleet.store.nodes.leadership import LeadershipTables
from crawlfleet.store.nodes.node_health import NodeHealthTables
from crawlfleet.store.nodes.node_proxies import NodeProxyTables
from crawlfleet.store.nodes.nodes import NodeTables
from crawlfleet.store.nodes.sessions import SessionTables
from crawlfleet.store.nodes.slots import SlotTables
from crawlfleet.store.nodes.task_types import TypeTables
from crawlfleet.store.projects.daily_quota import DailyTables
from crawlfleet.store.projects.projects import ProjectTables
from crawlfleet.store.tasks.lane_removal import LaneRemovalTables
from crawlfleet.store.tasks.lanes import LaneBook, LaneTables
from crawlfleet.store.tasks.live_tasks import TaskTables
from crawlfleet.store.tasks.parking import ParkingTables
from crawlfleet.store.tasks.preemptions import PreemptionTables
from crawlfleet.store.tasks.ready_tasks import ReadyTables
from crawlfleet.store.tasks.task_insert import AddTables
from crawlfleet.store.tasks.task_queries import ReadTables


class SqlStore(
    AddTables,
    TaskTables,
    ReadyTables,
    LaneTables,
    NodeTables,
    SessionTables,
    LeadershipTables,
    EventTables,
    UpkeepTables,
    ReadTables,
    TokenTables,
    AuditTables,
    TypeTables,
    ConfigTables,
    ProjectTables,
    GroupTables,
    EvidenceTables,
    FlowTables,
    ScheduleTables,
    FireTables,
    PreemptionTables,
    SlotTables,
    HostTables,
    ParkingTables,
    DailyTables,
    CrawlTables,
    HostFigureTables,
    ProductTables,
    CookieTables,
    NodeProxyTables,
    RetentionTables,
    IdSlotTables,
    NodeHealthTables,
    ClusterRemovalTables,
    LaneRemovalTables,
):
    def __init__(self, engine: QueryEngine, monotonic: Callable[[], float] = boot_time) -> None:
        self._engine: QueryEngine = engine
        self._lanes = LaneBook(monotonic=monotonic)

    @property
    def engine(self) -> QueryEngine:
        return self._engine

    async def close(self) -> None:
        await self._engine.close()
