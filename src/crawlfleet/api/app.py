"""The application: every route of every noun, the same answers to errors everywhere."""

from __future__ import annotations

from fastapi import Depends, FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.types import Receive, Scope, Send

from crawlfleet.api.dialects import device_registry, device_stats, device_tasks, device_work, queue
from crawlfleet.api.http import docs_page, errors, front_page, openapi
from crawlfleet.api.http.auth import Gate
from crawlfleet.api.http.fast_routes import PlainRoutes
from crawlfleet.api.http.middleware import Guard
from crawlfleet.api.http.parameters import check_route_query
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services
from crawlfleet.api.http.settings import ApiSettings
from crawlfleet.api.http.shutdown import Shutdown
from crawlfleet.api.routes import (
    audit,
    clean_up,
    clusters,
    cookie_jars,
    doctor,
    event_socket,
    events,
    flows,
    groups,
    health,
    history,
    hosts,
    log_level,
    masters,
    metrics,
    nodes,
    projects,
    proxies,
    queues,
    repair,
    schedules,
    tokens,
)
from crawlfleet.api.routes.alerts import alerts, channels, rules, silences
from crawlfleet.api.routes.node_calls import execution_chunks, execution_crawl, execution_products, sync
from crawlfleet.api.routes.results import exports, group_results, products, quality, results
from crawlfleet.api.routes.tasks import bulk, dead_letters, submit, task_detail, task_list, task_types
from crawlfleet.version import __version__

ROUTE_TABLES: tuple[RouteTable, ...] = (
    sync.routes,
    submit.routes,
    task_detail.routes,
    task_list.routes,
    bulk.routes,
    execution_chunks.routes,
    execution_crawl.routes,
    execution_products.routes,
    results.routes,
    groups.routes,
    group_results.routes,
    exports.routes,
    quality.routes,
    dead_letters.routes,
    queues.routes,
    nodes.routes,
    clusters.routes,
    projects.routes,
    task_types.routes,
    events.routes,
    event_socket.routes,
    flows.routes,
    tokens.routes,
    audit.routes,
    health.routes,
    schedules.routes,
    hosts.routes,
    history.routes,
    products.routes,
    cookie_jars.routes,
    proxies.routes,
    device_work.routes,
    device_tasks.routes,
    device_stats.routes,
    device_registry.routes,
    log_level.routes,
    masters.routes,
    doctor.routes,
    clean_up.routes,
    repair.routes,
    metrics.routes,
    alerts.routes,
    rules.routes,
    channels.routes,
    silences.routes,
    queue.routes,
)
"""In the order of how often they are asked for: a path is looked for from the first."""


_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
"""Looking for it would cost each request more than its route does."""


class Api(FastAPI):
    plain: PlainRoutes
    shutdown: Shutdown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (route := self.plain.find_route(scope)) is not None:
            await self.plain.serve_route(route, scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(services: Services, settings: ApiSettings | None = None) -> Api:
    settings = settings or ApiSettings()
    app = Api(
        title="crawlfleet",
        version=__version__,
        description=openapi.ABOUT,
        redirect_slashes=False,
        redoc_url=None,
        docs_url=None,
        openapi_url=None,
        generate_unique_id_function=openapi.route_operation_id,
        telemetry=_NO_TELEMETRY,
        dependencies=[Depends(check_route_query)],
    )
    app.state.services = services
    app.state.gate = gate = Gate(settings, services)
    app.state.quality = quality.QualityCache()
    app.state.scrapes = metrics.Scrapes(services)
    app.state.shutdown = app.shutdown = Shutdown(services)
    requests = services.metrics.requests
    plain_routes = [route for table in ROUTE_TABLES for route in table.plain_routes]
    body_limits = {path: limit for table in ROUTE_TABLES for path, limit in table.body_limits.items()}
    app.plain = PlainRoutes(app, plain_routes, gate, settings.body_limit_bytes, body_limits, requests)
    # Also among the others: for the document, and to tell a method they do not have from a path that does not exist.
    app.router.routes.extend(plain_routes)
    app.router.routes.append(event_socket.EVENT_SOCKET)
    for table in ROUTE_TABLES:
        if table.router.routes:
            app.include_router(table.router)
    errors.install_error_handlers(app)
    app.add_middleware(Guard, gate=gate, body_limit_bytes=settings.body_limit_bytes, requests=requests)
    openapi.install_document(app, ROUTE_TABLES)
    front_page.install_front_page(app, has_docs=settings.has_docs)
    if settings.has_docs:
        docs_page.install_docs_page(app)
    return app
