"""The services of a master that routes call, in one dataclass that bootstrap fills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from crawlfleet.control.admin.audit import Audit
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.clusters import Clusters
from crawlfleet.control.admin.figures import Figures
from crawlfleet.control.admin.hosts import Hosts
from crawlfleet.control.admin.installation_reader import InstallationReader
from crawlfleet.control.admin.masters import MasterReader
from crawlfleet.control.admin.projects import Projects
from crawlfleet.control.admin.queue_reader import QueueReader
from crawlfleet.control.admin.queues import Pause
from crawlfleet.control.admin.submit_audit import SubmitLog
from crawlfleet.control.admin.tokens import Tokens
from crawlfleet.control.alerts.alert_channels import AlertChannels
from crawlfleet.control.alerts.alert_reader import Alerts
from crawlfleet.control.alerts.alert_rules import AlertRules
from crawlfleet.control.alerts.rule_preview import RulePreviews
from crawlfleet.control.composites.crawl_coordination import Exchange
from crawlfleet.control.composites.crawl_summary import CrawlSummaries
from crawlfleet.control.composites.flows import Flows
from crawlfleet.control.composites.groups import Groups
from crawlfleet.control.composites.products import Products
from crawlfleet.control.composites.schedules import Schedules
from crawlfleet.control.composites.shop_flows import ShopFlows
from crawlfleet.control.composites.spread_crawl import SpreadCrawl
from crawlfleet.control.explain.doctor.doctor import Doctor
from crawlfleet.control.explain.task import Why
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import Loop
from crawlfleet.control.loops.reconciler import Reconciler
from crawlfleet.control.nodes.departed_nodes import DepartedNodes
from crawlfleet.control.nodes.execution_reports import ExecutionReports
from crawlfleet.control.nodes.heartbeat import Heartbeat
from crawlfleet.control.nodes.heartbeat_feed import HeartbeatFeed
from crawlfleet.control.nodes.node_changes import NodeChanges
from crawlfleet.control.nodes.node_reader import NodeReader
from crawlfleet.control.nodes.open_session import OpenSession
from crawlfleet.control.nodes.proxy_reports import ProxyReports
from crawlfleet.control.nodes.pull import Pull
from crawlfleet.control.nodes.register import Register
from crawlfleet.control.nodes.sync import Sync
from crawlfleet.control.results.clean_up import CleanUp
from crawlfleet.control.results.cookie_jars import CookieJars
from crawlfleet.control.results.execution_lookup import ExecutionLookup
from crawlfleet.control.results.page_notes import PageNotes
from crawlfleet.control.results.repair import Repair
from crawlfleet.control.results.result_collection import Collect
from crawlfleet.control.support.event_feed import EventFeed
from crawlfleet.control.support.task_completion_watcher import TaskCompletionWatcher
from crawlfleet.control.tasks.changes import TaskChanges
from crawlfleet.control.tasks.dead_letters import DeadLetters
from crawlfleet.control.tasks.manual_assignment import AssignByHand
from crawlfleet.control.tasks.submit import Submit
from crawlfleet.control.tasks.task_reader import TaskReader
from crawlfleet.observe.log_level import LogLevel
from crawlfleet.observe.metrics import ProcessMetrics
from crawlfleet.observe.tracing import Tracing
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.chunk_store import ChunkStore
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Every service that a route calls. Services that wait or remember (feeds, watchers) exist once for each
    application."""

    name: str
    """Name of this start of the master."""
    store: Store
    broker: Broker
    clock: Clock
    chunks: ChunkStore
    loops: Sequence[Loop]
    leadership: LeadershipState
    reconciler: Reconciler
    metrics: ProcessMetrics

    # tasks
    submit: Submit
    submit_audit: SubmitLog
    task_changes: TaskChanges
    assign: AssignByHand
    dead_letters: DeadLetters
    task_completions: TaskCompletionWatcher
    task_reader: TaskReader

    # composites
    groups: Groups
    flows: Flows
    schedules: Schedules
    shop_flows: ShopFlows
    spread_crawl: SpreadCrawl
    products: Products
    crawl_coordination: Exchange
    crawl_summaries: CrawlSummaries

    # output of executions
    collect: Collect
    executions: ExecutionLookup
    page_notes: PageNotes
    cookie_jars: CookieJars

    # nodes
    register: Register
    open_session: OpenSession
    sync: Sync
    heartbeat: Heartbeat
    heartbeat_feed: HeartbeatFeed
    pull: Pull
    execution_reports: ExecutionReports
    node_changes: NodeChanges
    proxy_reports: ProxyReports
    node_reader: NodeReader

    # operators
    clean_up: CleanUp
    repair: Repair
    departed_nodes: DepartedNodes
    tokens: Tokens
    audit: Audit
    clusters: Clusters
    configure: Configure
    log_level: LogLevel
    masters: MasterReader
    doctor: Doctor
    projects: Projects
    pause: Pause
    queue_reader: QueueReader
    hosts: Hosts
    figures: Figures
    installation: InstallationReader
    why: Why
    event_feed: EventFeed
    alerts: Alerts
    alert_rules: AlertRules
    alert_channels: AlertChannels
    alert_previews: RulePreviews
    tracing: Tracing | None = None


def get_services(connection: HTTPConnection) -> Services:
    return cast("Services", connection.app.state.services)


async def _depend_on_services(connection: HTTPConnection) -> Services:
    # FastAPI runs a plain function in a thread; this one only reads an attribute.
    return get_services(connection)


TheServices = Annotated[Services, Depends(_depend_on_services)]
"""The services, as a dependency of FastAPI's routes: `async def show(services: TheServices) -> Response`."""
