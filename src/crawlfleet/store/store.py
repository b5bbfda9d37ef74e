"""The store over an engine: all aggregates together."""

from __future__ import annotations

from crawlfleet.store.adding import AddTables
from crawlfleet.store.audit import AuditTables
from crawlfleet.store.configs import ConfigTables
from crawlfleet.store.events import EventTables
from crawlfleet.store.hosts import HostTables
from crawlfleet.store.lanes import LaneBook, LaneTables
from crawlfleet.store.leadership import LeadershipTables
from crawlfleet.store.nodes import NodeTables
from crawlfleet.store.query import QueryEngine
from crawlfleet.store.reads import ReadTables
from crawlfleet.store.ready import ReadyTables
from crawlfleet.store.task_types import TypeTables
from crawlfleet.store.tasks import TaskTables
from crawlfleet.store.tokens import TokenTables
from crawlfleet.store.upkeep import UpkeepTables


class SqlStore(
    AddTables, TaskTables, ReadyTables, LaneTables, NodeTables, LeadershipTables, EventTables, UpkeepTables, ReadTables,
    TokenTables, AuditTables, TypeTables, ConfigTables, HostTables,
):  # fmt: skip
    def __init__(self, engine: QueryEngine) -> None:
        self._engine: QueryEngine = engine
        self._lanes = LaneBook()

    @property
    def engine(self) -> QueryEngine:
        return self._engine

    async def close(self) -> None:
        await self._engine.close()
