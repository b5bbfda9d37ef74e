"""The store over an engine: all aggregates together."""

from __future__ import annotations

from collections.abc import Callable

from crawlfleet.ports.clock import boot_time
from crawlfleet.store.adding import AddTables
from crawlfleet.store.audit import AuditTables
from crawlfleet.store.cluster_removal import ClusterRemovalTables
from crawlfleet.store.configs import ConfigTables
from crawlfleet.store.cookie_jars import CookieTables
from crawlfleet.store.crawls import CrawlTables
from crawlfleet.store.events import EventTables
from crawlfleet.store.evidence import EvidenceTables
from crawlfleet.store.firing import FireTables
from crawlfleet.store.flows import FlowTables
from crawlfleet.store.groups import GroupTables
from crawlfleet.store.host_figures import HostFigureTables
from crawlfleet.store.hosts import HostTables
from crawlfleet.store.id_slots import IdSlotTables
from crawlfleet.store.lane_removal import LaneRemovalTables
from crawlfleet.store.lanes import LaneBook, LaneTables
from crawlfleet.store.leadership import LeadershipTables
from crawlfleet.store.node_health import NodeHealthTables
from crawlfleet.store.node_proxies import NodeProxyTables
from crawlfleet.store.nodes import NodeTables
from crawlfleet.store.parking import ParkingTables
from crawlfleet.store.preemptions import PreemptionTables
from crawlfleet.store.products import ProductTables
from crawlfleet.store.projects import ProjectTables
from crawlfleet.store.query import QueryEngine
from crawlfleet.store.reads import ReadTables
from crawlfleet.store.ready import ReadyTables
from crawlfleet.store.retention import RetentionTables
from crawlfleet.store.schedules import ScheduleTables
from crawlfleet.store.slices import DailyTables
from crawlfleet.store.slots import SlotTables
from crawlfleet.store.task_types import TypeTables
from crawlfleet.store.tasks import TaskTables
from crawlfleet.store.tokens import TokenTables
from crawlfleet.store.upkeep import UpkeepTables


class SqlStore(
    AddTables, TaskTables, ReadyTables, LaneTables, NodeTables, LeadershipTables, EventTables, UpkeepTables, ReadTables,
    TokenTables, AuditTables, TypeTables, ConfigTables, ProjectTables, GroupTables, EvidenceTables, FlowTables,
    ScheduleTables, FireTables, PreemptionTables, SlotTables, HostTables, ParkingTables, DailyTables, CrawlTables,
    HostFigureTables, ProductTables, CookieTables, NodeProxyTables, RetentionTables, IdSlotTables, NodeHealthTables,
    ClusterRemovalTables, LaneRemovalTables,
):  # fmt: skip
    def __init__(self, engine: QueryEngine, monotonic: Callable[[], float] = boot_time) -> None:
        self._engine: QueryEngine = engine
        self._lanes = LaneBook(monotonic=monotonic)

    @property
    def engine(self) -> QueryEngine:
        return self._engine

    async def close(self) -> None:
        await self._engine.close()
