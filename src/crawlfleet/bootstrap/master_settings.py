"""The settings of a master, converted for its parts."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import structlog

from crawlfleet.api.http.settings import ApiSettings
from crawlfleet.bootstrap.alerts.alert_settings import alert_options
from crawlfleet.bootstrap.connection_guard import ConnectionLimits
from crawlfleet.bootstrap.master import MasterOptions
from crawlfleet.bootstrap.strategies import own_strategies
from crawlfleet.control.nodes.heartbeat import SimpleClients
from crawlfleet.control.tasks.admission import WaitingLimit
from crawlfleet.execution.executors.registry import builtin_checks
from crawlfleet.model.installation.retention import Retention
from crawlfleet.model.instants import ms
from crawlfleet.observe.log_level import PROCESS_LEVEL
from crawlfleet.settings.master import MasterSettings

log = structlog.get_logger()

_CLUSTER_DEFAULTS = (
    "strategy",
    "task_timeout_s",
    "max_retries",
    "retry_base_delay_s",
    "retry_max_delay_s",
    "allow_hosts",
    "overcommit",
    "priority_high",
    "priority_normal",
    "priority_low",
    "alert_failure_rate",
    "alert_queue_size",
    "alert_avg_duration_s",
)


def master_options(settings: MasterSettings) -> MasterOptions:
    return MasterOptions(
        waiting=WaitingLimit(settings.max_waiting, settings.max_waiting_per_project),
        retention=Retention(
            _days_to_ms(settings.retain_tasks_days),
            _days_to_ms(settings.retain_events_days),
            gone_products_ms=_days_to_ms(settings.retain_gone_products_days) or None,
        ),
        clusters={name: getattr(settings, name) for name in _CLUSTER_DEFAULTS},
        simple=SimpleClients(settings.heartbeat_interval_s, settings.device_timeout_s),
        strategies=own_strategies(),
        checks=builtin_checks(),
        address=settings.advertise_url or "",
        task_timeout_s=settings.task_timeout_s,
        log_level=PROCESS_LEVEL,
        alerts=alert_options(settings),
    )


def api_settings(settings: MasterSettings) -> ApiSettings:
    return ApiSettings(
        allowed_networks=tuple(settings.allowed_networks),
        failed_attempts_per_minute=settings.failed_attempts_per_minute,
        has_docs=settings.api_docs,
    )


def connection_limits(settings: MasterSettings, files: int) -> ConnectionLimits:
    """Return the connection limits of the settings, within the number of files that the process may open."""
    limits = ConnectionLimits(
        head_bytes=settings.head_limit_bytes,
        head_timeout_s=settings.head_timeout_s,
        unidentified=settings.unidentified_connections,
        unidentified_per_address=settings.unidentified_connections_per_address,
        networks=tuple(ip_network(network) for network in settings.allowed_networks),
    )
    within = limits.within_files(files)
    if within.unidentified < limits.unidentified:
        log.warning(
            "few_open_files",
            files=files,
            unidentified_connections=within.unidentified,
            hint="raise the limit of open files: LimitNOFILE of systemd, or ulimit -Hn",
        )
    return within


def watched_folders(settings: MasterSettings) -> dict[str, Path]:
    """Return the folders whose disks are watched, by what is kept there."""
    folders = {"data": settings.data_dir}
    if "://" not in settings.results:
        folders["results"] = Path(settings.results)
    return folders


def _days_to_ms(days: float) -> int:
    return ms(days * 86_400)
