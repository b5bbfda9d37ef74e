"""Builds the services of a master for the HTTP API."""

from __future__ import annotations

from random import Random

from crawlfleet.api.http.services import Services
from crawlfleet.bootstrap.built_in_types import SHOP_TYPES, WebCrawlEngine
from crawlfleet.bootstrap.master import Master
from crawlfleet.control.admin.clusters import Clusters
from crawlfleet.control.admin.installation_reader import InstallationReader
from crawlfleet.control.admin.masters import MasterReader
from crawlfleet.control.admin.queue_reader import QueueReader
from crawlfleet.control.admin.submit_audit import SubmitLog
from crawlfleet.control.composites.crawl_coordination import Exchange
from crawlfleet.control.composites.crawl_summary import CrawlSummaries
from crawlfleet.control.composites.products import Products
from crawlfleet.control.composites.shop_flows import ShopFlows
from crawlfleet.control.composites.spread_crawl import SpreadCrawl
from crawlfleet.control.explain.doctor.doctor import Doctor
from crawlfleet.control.nodes.departed_nodes import DepartedNodes
from crawlfleet.control.nodes.execution_reports import ExecutionReports
from crawlfleet.control.nodes.heartbeat_feed import HeartbeatFeed
from crawlfleet.control.nodes.node_reader import NodeReader
from crawlfleet.control.nodes.proxy_reports import ProxyReports
from crawlfleet.control.nodes.pull import Pull
from crawlfleet.control.results.clean_up import CleanUp
from crawlfleet.control.results.cookie_jars import CookieJars
from crawlfleet.control.results.execution_lookup import ExecutionLookup
from crawlfleet.control.results.page_notes import PageNotes
from crawlfleet.control.results.repair import Repair
from crawlfleet.control.results.result_collection import Collect
from crawlfleet.control.support.event_feed import EventFeed
from crawlfleet.control.support.task_completion_watcher import TaskCompletionWatcher
from crawlfleet.control.tasks.task_reader import TaskReader
from crawlfleet.results.chunk_names import parse_task
from crawlfleet.results.page_notes import StoredPageNotes
from crawlfleet.store.engine.migrate import known_revisions
from crawlfleet.version import __version__


def build_services(master: Master) -> Services:
    """Build the services for one application. Those that only the API needs are made here, anew for each
    application."""
    store, broker, clock, chunks = master.store, master.broker, master.clock, master.chunks
    engine = WebCrawlEngine()
    executions = ExecutionLookup(store=store)
    return Services(
        name=master.name,
        store=store,
        broker=broker,
        clock=clock,
        chunks=chunks,
        loops=master.loops,
        leadership=master.lead,
        reconciler=master.reconciler,
        metrics=master.metrics,
        submit=master.submit,
        submit_audit=SubmitLog(master.audit),
        task_changes=master.task_changes,
        assign=master.assign,
        dead_letters=master.dead_letters,
        task_completions=TaskCompletionWatcher(store=store, signals=broker.signals),
        task_reader=TaskReader(store=store, progress=broker.progress),
        groups=master.groups,
        flows=master.flows,
        schedules=master.schedules,
        products=Products(store=store, clock=clock),
        shop_flows=ShopFlows(
            store=store,
            clock=clock,
            flows=master.flows,
            task_changes=master.task_changes,
            task_types=master.task_types,
            shop_types=SHOP_TYPES,
        ),
        spread_crawl=SpreadCrawl(engine=engine),
        crawl_coordination=Exchange(store=store, clock=clock),
        crawl_summaries=CrawlSummaries(store=store, engine=engine),
        collect=Collect(store=store, chunks=chunks),
        executions=executions,
        page_notes=PageNotes(store=store, reader=StoredPageNotes(chunks), executions=executions),
        cookie_jars=CookieJars(store=store, clock=clock),
        register=master.register,
        open_session=master.open_session,
        sync=master.sync,
        heartbeat=master.heartbeat,
        heartbeat_feed=HeartbeatFeed(store=store, clock=clock),
        pull=Pull(store=store, broker=broker, clock=clock, rng=Random(), heartbeat=master.heartbeat),
        execution_reports=ExecutionReports(store=store, broker=broker, clock=clock, finish=master.finish),
        node_changes=master.node_changes,
        proxy_reports=ProxyReports(store=store, clock=clock),
        node_reader=NodeReader(store=store, measurements=broker.measurements, configure=master.configure),
        clean_up=CleanUp(store=store, chunks=chunks, clock=clock, retention=master.retention, parse_task=parse_task),
        repair=Repair(store=store, broker=broker, chunks=chunks, clock=clock),
        departed_nodes=DepartedNodes(store=store, node_changes=master.node_changes, clock=clock),
        tokens=master.tokens,
        audit=master.audit,
        clusters=Clusters(store=store, broker=broker, clock=clock, configure=master.configure),
        configure=master.configure,
        log_level=master.log_level_keeper.log_level,
        masters=MasterReader(store=store, clock=clock),
        doctor=Doctor(
            store=store,
            clock=clock,
            read_files=master.options.read_files,
            version=__version__,
            revisions=tuple(known_revisions()),
            timeout_s=master.options.task_timeout_s,
        ),
        projects=master.projects,
        pause=master.pause,
        queue_reader=QueueReader(store=store),
        hosts=master.hosts,
        figures=master.figures,
        installation=InstallationReader(store=store, clock=clock, configure=master.configure),
        why=master.why,
        tracing=master.dispatcher.tracing,
        event_feed=EventFeed(store=store, broker=broker),
        alerts=master.alert_parts.alerts,
        alert_rules=master.alert_parts.rules,
        alert_channels=master.alert_parts.channels,
        alert_previews=master.alert_parts.previews,
    )
