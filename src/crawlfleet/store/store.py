"""The store over an engine: all aggregates in one class."""

from __future__ import annotations

from collections.abc import Callable

from crawlfleet.ports.clock import boot_time
from crawlfleet.store.admin.audit import AuditTables
from crawlfleet.store.admin.cluster_config import ConfigTables
from crawlfleet.store.admin.counters import CounterTables
from crawlfleet.store.admin.doctor import DoctorTables
from crawlfleet.store.admin.events import EventTables
from crawlfleet.store.admin.evidence import EvidenceTables
from crawlfleet.store.admin.installation_counts import InstallationTables
from crawlfleet.store.admin.retention import RetentionTables
from crawlfleet.store.admin.task_figures import TaskFigureTables
from crawlfleet.store.admin.tokens import TokenTables
from crawlfleet.store.alerts.alert_samples import AlertSampleTables
from crawlfleet.store.alerts.alerts import AlertTables
from crawlfleet.store.alerts.notices import NoticeTables
from crawlfleet.store.composites.crawls import CrawlTables
from crawlfleet.store.composites.flows import FlowTables
from crawlfleet.store.composites.groups import GroupTables
from crawlfleet.store.composites.products import ProductTables
from crawlfleet.store.composites.schedule_firing import FireTables
from crawlfleet.store.composites.schedules import ScheduleTables
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.timed_engine import TimedEngine
from crawlfleet.store.hosts.cookie_jars import CookieTables
from crawlfleet.store.hosts.host_stats import HostFigureTables
from crawlfleet.store.hosts.hosts import HostTables
from crawlfleet.store.nodes.cluster_removal import ClusterRemovalTables
from crawlfleet.store.nodes.id_slots import IdSlotTables
from crawlfleet.store.nodes.leadership import LeadershipTables
from crawlfleet.store.nodes.node_health import NodeHealthTables
from crawlfleet.store.nodes.node_proxies import NodeProxyTables
from crawlfleet.store.nodes.nodes import NodeTables
from crawlfleet.store.nodes.pulls import PullTables
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
    CounterTables,
    TaskFigureTables,
    InstallationTables,
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
    PullTables,
    RetentionTables,
    IdSlotTables,
    NodeHealthTables,
    ClusterRemovalTables,
    LaneRemovalTables,
    DoctorTables,
    AlertTables,
    AlertSampleTables,
    NoticeTables,
):
    def __init__(self, engine: QueryEngine, monotonic: Callable[[], float] = boot_time) -> None:
        self._raw_engine = engine
        self._engine: QueryEngine = (timed := TimedEngine(engine))
        self.transaction_times = timed.times
        self._recent_writes = timed.recent_writes
        self._lanes = LaneBook(monotonic=monotonic)

    @property
    def engine(self) -> QueryEngine:
        return self._raw_engine

    def commit_p99_ms(self) -> float | None:
        return self._recent_writes.p99

    async def close(self) -> None:
        await self._engine.close()
