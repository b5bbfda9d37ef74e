"""Builds the services of a master for the HTTP API."""

from __future__ import annotations

from crawlfleet.api.http.services import Services
from crawlfleet.bootstrap.built_in_types import SHOP_TYPES, WebCrawlEngine
from crawlfleet.bootstrap.master import Master
from crawlfleet.control.admin.clusters import Clusters
from crawlfleet.control.admin.queue_reader import QueueReader
from crawlfleet.control.admin.submit_audit import SubmitLog
from crawlfleet.control.composites.crawl_coordination import Exchange
from crawlfleet.control.composites.crawl_summary import CrawlSummaries
from crawlfleet.control.composites.products import Products
from crawlfleet.control.composites.shop_flows import ShopFlows
from crawlfleet.control.composites.spread_crawl import SpreadCrawl
from crawlfleet.control.nodes.heartbeat_feed import HeartbeatFeed
from crawlfleet.control.nodes.node_reader import NodeReader
from crawlfleet.control.nodes.proxy_reports import ProxyReports
from crawlfleet.control.results.cookie_jars import CookieJars
from crawlfleet.control.results.execution_lookup import ExecutionLookup
from crawlfleet.control.results.page_notes import PageNotes
from crawlfleet.control.results.result_collection import Collect
from crawlfleet.control.support.event_feed import EventFeed
from crawlfleet.control.support.task_completion_watcher import TaskCompletionWatcher
from crawlfleet.control.tasks.task_reader import TaskReader
from crawlfleet.results.page_notes import StoredPageNotes


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
        node_changes=master.node_changes,
        proxy_reports=ProxyReports(store=store, clock=clock),
        node_reader=NodeReader(store=store, measurements=broker.measurements, configure=master.configure),
        tokens=master.tokens,
        audit=master.audit,
        clusters=Clusters(store=store, broker=broker, clock=clock, configure=master.configure),
        configure=master.configure,
        projects=master.projects,
        pause=master.pause,
        queue_reader=QueueReader(store=store),
        hosts=master.hosts,
        why=master.why,
        event_feed=EventFeed(store=store, broker=broker),
    )
