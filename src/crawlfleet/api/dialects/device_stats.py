"""The device dialect: statistics of tasks and devices, and the state of the whole installation, from counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import Query, Request
from starlette.responses import Response

from crawlfleet.api.dialects.device_registry import PREFIX, KnownDevice
from crawlfleet.api.dialects.device_task_views import task_word
from crawlfleet.api.dialects.device_views import DEVICE_WORDS, device_name, report_word
from crawlfleet.api.dialects.time_window import WindowInQuery
from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.node_access import require_own_node
from crawlfleet.api.http.parameters import Name
from crawlfleet.api.http.responses import json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.api.views.tasks import Time, instant_text
from crawlfleet.control.admin.masters import MasterReport
from crawlfleet.model.alerts.alert import AlertStatus
from crawlfleet.model.figures.task_figures import (
    ALL,
    COMPLETED,
    FAILED,
    NODE,
    PROJECT,
    SUBMITTED,
    TASKS_COMPLETED,
    TASKS_FAILED,
    TASKS_TIMEOUT,
    TIMEOUT,
    TYPE,
    average_run_ms,
    count_task_ends,
    empty_row,
    percentile_ms,
    run_times,
    series_name,
)
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.node import Measurement
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.status import WAITING_STATUSES, TaskStatus
from crawlfleet.version import __version__

routes = RouteTable("devices", PREFIX)
DAY_MS = 86_400_000
RECENT_MS = 5 * 60_000
"""Window of the throughput and the rates of the overview."""
_P95 = 0.95
_UNMEASURED = Measurement()


class TypeStats(msgspec.Struct, frozen=True):
    submitted: int
    completed: int
    failed: int
    """Failed or timed out for good."""
    avg_duration: float | None
    """Seconds of an execution; null before any has ended."""


class DeviceTaskStats(msgspec.Struct, frozen=True):
    tasks: dict[str, int]
    """Tasks by status, now."""
    total: int
    by_type: dict[str, TypeStats]
    """Of the window; empty where a project is named."""
    success_rate: float | None
    """Of the tasks that completed, failed or timed out in the window; null for none."""
    avg_duration: float | None
    p95_duration: float | None


class DeviceStats(msgspec.Struct, frozen=True):
    device_id: str
    window: str
    completed: int
    failed: int
    timeout: int
    success_rate: float | None
    avg_duration: float | None
    p95_duration: float | None
    current_tasks: int
    cpu_usage: float
    memory_usage: float
    last_heartbeat: Time | None


class OverviewMaster(msgspec.Struct, frozen=True):
    name: str
    version: str
    is_alive: bool
    is_leader: bool


class SystemOverview(msgspec.Struct, frozen=True):
    version: str
    leader: str | None
    masters: list[OverviewMaster]
    devices: dict[str, int]
    """`total`, and how many have each status."""
    tasks: dict[str, int]
    """By status."""
    queue_size: int
    """Tasks on no device: pending, waiting or retrying."""
    throughput_per_min: float
    """Tasks that ended, in the last five minutes."""
    success_rate: float | None
    avg_duration: float | None
    alerts_firing: int
    timestamp: Time


@routes.get("/tasks/stats", DeviceTaskStats, name="task_stats")
async def show_task_stats(
    services: TheServices,
    window_ms: WindowInQuery,
    project_id: Annotated[Name | None, Query(description="Only tasks of this project.")] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """Tasks by status now, and what happened in the last `window`, or since the installation began."""
    counts = await services.task_reader.count_tasks(project_id)
    kind, series = (ALL, ALL) if project_id is None else (PROJECT, series_name(PROJECT, project_id))
    row = (await _load_rows(services, kind, [series], window_ms))[series]
    by_type: dict[str, TypeStats] = {}
    if project_id is None:
        names = sorted(await services.figures.load_totals(TYPE))
        rows = await _load_rows(services, TYPE, names, window_ms)
        by_type = {name.removeprefix(series_name(TYPE, "")): _type_stats(rows[name]) for name in names}
    view = DeviceTaskStats(
        {task_word(status): counts.get(status, 0) for status in TaskStatus},
        sum(counts.values()),
        by_type,
        _share(row[TASKS_COMPLETED], row[TASKS_FAILED] + row[TASKS_TIMEOUT]),
        _seconds(average_run_ms(row)),
        _seconds(percentile_ms(run_times(row), _P95)),
    )
    return json_response(view)


@routes.get("/devices/{device_id}/stats", DeviceStats, name="device_stats")
async def show_device_stats(
    request: Request,
    device: KnownDevice,
    services: TheServices,
    window_ms: WindowInQuery,
    principal: Principal = allow(Role.VIEWER, Role.NODE),
) -> Response:
    """What the device did in the last `window`, a day unless given. A device sees only itself."""
    await require_own_node(request, principal, device.id, "node.stats")
    span_ms = DAY_MS if window_ms is None else window_ms
    row = await services.figures.sum_window(series_name(NODE, node_text(device.id)), span_ms)
    (report,) = await services.node_reader.report_nodes([device])
    measured = report.measurement or device.measurement or _UNMEASURED
    view = DeviceStats(
        device_name(device),
        request.query_params.get("window", "24h"),
        row[COMPLETED],
        row[FAILED],
        row[TIMEOUT],
        _share(row[COMPLETED], row[FAILED] + row[TIMEOUT]),
        _seconds(average_run_ms(row)),
        _seconds(percentile_ms(run_times(row), _P95)),
        report.running,
        measured.cpu,
        measured.memory,
        instant_text(device.renewed_at),
    )
    return json_response(view)


@routes.get("/system/overview", SystemOverview, name="overview")
async def show_overview(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """The whole installation at a glance."""
    now = services.clock.now()
    masters = await services.masters.list_masters()
    reports = await services.node_reader.report_nodes(await services.node_reader.list_nodes())
    words = Counter(report_word(report) for report in reports)
    counts = await services.task_reader.count_tasks()
    row = await services.figures.sum_window(ALL, RECENT_MS)
    alerts = (await services.store.load_alerts(now)).states.values()
    view = SystemOverview(
        __version__,
        next((master.record.identity.name for master in masters if master.is_leader), None),
        [_overview_master(master) for master in masters],
        {"total": len(reports), **{word: words[word] for word in DEVICE_WORDS}},
        {task_word(status): counts.get(status, 0) for status in TaskStatus},
        sum(counts.get(status, 0) for status in WAITING_STATUSES),
        count_task_ends(row) / (RECENT_MS / 60_000),
        _share(row[TASKS_COMPLETED], row[TASKS_FAILED] + row[TASKS_TIMEOUT]),
        _seconds(average_run_ms(row)),
        sum(alert.status in (AlertStatus.FIRING, AlertStatus.RECOVERING) for alert in alerts),
        to_text(now),
    )
    return json_response(view)


def _overview_master(master: MasterReport) -> OverviewMaster:
    identity = master.record.identity
    return OverviewMaster(identity.name, identity.version, master.record.is_alive, master.is_leader)


async def _load_rows(
    services: Services, kind: str, series: Sequence[str], window_ms: int | None
) -> dict[str, Sequence[int]]:
    """Return the figures of series, in the window or since they began."""
    if window_ms is not None:
        return await services.figures.sum_windows(series, window_ms)
    totals = await services.figures.load_totals(kind)
    return {name: totals[name].figures if name in totals else empty_row() for name in series}


def _type_stats(row: Sequence[int]) -> TypeStats:
    failed = row[TASKS_FAILED] + row[TASKS_TIMEOUT]
    return TypeStats(row[SUBMITTED], row[TASKS_COMPLETED], failed, _seconds(average_run_ms(row)))


def _share(completed: int, failed: int) -> float | None:
    return completed / (completed + failed) if completed + failed else None


def _seconds(span_ms: float | None) -> float | None:
    return None if span_ms is None else span_ms / 1000
