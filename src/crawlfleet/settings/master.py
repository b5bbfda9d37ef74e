"""The settings of a master, and of a standalone installation (a master and its agents, started by one command)."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, model_validator

from crawlfleet.model import limits
from crawlfleet.model.queue import PriorityClasses
from crawlfleet.model.requirement import DEFAULT_STRATEGY, STRATEGIES
from crawlfleet.model.task import RetryPolicy
from crawlfleet.settings.base import Settings, default_data_dir, setting
from crawlfleet.settings.values import (
    Count,
    CrawlHosts,
    Factor,
    Folder,
    Host,
    Label,
    LogFilePath,
    LogFormat,
    LogLevel,
    Modules,
    Networks,
    Port,
    Priority,
    Seconds,
    Url,
)

STRATEGY_GROUP = "crawlfleet.strategies"
"""Name of the entry point group of users' own strategies."""
MAX_WORKERS = "Agents that one command may start on this machine."

_RETRY = RetryPolicy()
_CLASSES = PriorityClasses()
_STORES = ("sqlite:///", "postgresql://", "postgres://")
_BROKERS = ("redis://", "rediss://", "unix://")


def _check_store(text: str) -> str:
    if not text.startswith(_STORES) or text in _STORES:
        raise ValueError(f"{text!r} is neither sqlite:///FILE nor postgresql://USER@HOST/DATABASE")
    return text


def _check_broker(text: str) -> str:
    if text != "memory:" and not text.startswith(_BROKERS):
        raise ValueError(f"{text!r} is neither memory: nor redis://HOST:PORT/NUMBER")
    return text


def _check_strategy(text: str) -> str:
    names = {*STRATEGIES, *(point.name for point in entry_points(group=STRATEGY_GROUP))}
    if text not in names:
        raise ValueError(f"{text!r} is none of {', '.join(sorted(names))}")
    return text


_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]((?:/[A-Za-z0-9!_.*'()-]+)*)/?")


def _check_results(text: str) -> str:
    """Return a folder as its absolute path, or the address of a bucket with the prefix of the names in it."""
    if text and "://" not in text:
        return str(Path(text).expanduser().absolute())
    match = _BUCKET.fullmatch(text)
    if match is None or not {".", ".."}.isdisjoint(match[1].split("/")):
        raise ValueError(f"{text!r} is neither a folder nor s3://BUCKET/PREFIX")
    return text.rstrip("/")


def _results_in(values: dict[str, Any]) -> str:
    return f"{values.get('data_dir', default_data_dir())}/results"


def _store_in(values: dict[str, Any]) -> str:
    return f"sqlite:///{values.get('data_dir', default_data_dir())}/crawlfleet.db"


class MasterSettings(Settings):
    section: ClassVar[str] = "master"

    host: Host = setting("127.0.0.1", about="The address the API listens on.")
    port: Port = setting(8000, about="The port the API listens on; 0 takes any free one.")
    data_dir: Folder = setting(
        default_data_dir, about="Where the installation keeps its files.", shown="~/.local/share/crawlfleet"
    )
    store: Annotated[str, AfterValidator(_check_store)] = setting(
        _store_in,
        about="The database: sqlite:///FILE or postgresql://...",
        shown="sqlite:///DATA_DIR/crawlfleet.db",
    )
    broker: Annotated[str, AfterValidator(_check_broker)] = setting(
        "memory:", about="What carries hints between masters: memory: for one master, redis://... for several."
    )
    redis_max_connections: Count = setting(
        20, about="Connections that this master has to Redis at a time at most; it needs two.", ge=2, le=10_000
    )
    redis_pool_timeout_s: Seconds = setting(
        2.0,
        about="Seconds that a connection to Redis may take to be free, made and answered; then it is tried again.",
        ge=0.1,
        le=600,
    )
    results: Annotated[str, AfterValidator(_check_results)] = setting(
        _results_in,
        about="Where items and logs are kept: a folder, which all masters share, or s3://BUCKET/PREFIX with endpoint, "
        "region and keys in the usual AWS_ variables.",
        shown="DATA_DIR/results",
    )
    advertise_url: Url | None = setting(
        None,
        about="The address under which nodes reach this master, such as https://10.0.0.1:8000: all masters pass it on "
        "to their nodes, which try it when another master is away. Unset: only nodes that were given it know it.",
    )
    name: Label | None = setting(None, about="The name of this master.", shown="the machine's host name and the port")
    tls_cert: Folder | None = setting(None, about="A certificate (PEM): with tls_key the API speaks HTTPS.")
    tls_key: Folder | None = setting(None, about="The private key of tls_cert (PEM).")
    allowed_networks: Networks = setting(
        (), about="Address ranges that may call the API, such as 10.0.0.0/8. Empty: every address."
    )
    allow_hosts: CrawlHosts = setting(
        (),
        about="Hosts, addresses or networks that crawls may visit on every node although they are private, loopback or "
        "link-local; a cluster's configuration may say otherwise.",
    )
    max_waiting: Count = setting(
        5_000_000, about="Tasks that may wait in the installation; more are answered with 429.", ge=1
    )
    max_waiting_per_project: Count = setting(5_000_000, about="The same limit for each project.", ge=1)
    task_timeout_s: Count = setting(
        limits.TIMEOUT_S_DEFAULT,
        about="Seconds an execution may take when its task does not say.",
        ge=1,
        le=limits.TIMEOUT_S_MAX,
    )
    max_retries: Count = setting(3, about="Retries of a failed task when it does not say.", ge=0, le=limits.RETRIES_MAX)
    retry_base_delay_s: Seconds = setting(
        _RETRY.base_delay_s,
        about="Seconds before the first retry of a failed task when it does not say; doubled with each further one.",
        ge=0,
        le=limits.RETRY_BASE_DELAY_S_MAX,
    )
    retry_max_delay_s: Seconds = setting(
        _RETRY.max_delay_s,
        about="Seconds that such a delay grows to at most.",
        ge=0,
        le=limits.RETRY_DELAY_S_MAX,
    )
    priority_high: Priority = setting(
        _CLASSES.high, about="The least priority of the class high: `GET /api/stats` counts what waits by class."
    )
    priority_normal: Priority = setting(_CLASSES.normal, about="The least priority of the class normal.")
    priority_low: Priority = setting(
        _CLASSES.low, about="The priority that the class low stands for; lower ones belong to it too."
    )
    strategy: Annotated[str, AfterValidator(_check_strategy)] = setting(
        DEFAULT_STRATEGY,
        about=f"How a node is chosen when a task does not say: {', '.join(STRATEGIES)}, or one of your own.",
    )
    overcommit: Factor = setting(
        1.0, about="How many times the resources that nodes declare may be reserved in all.", ge=0.1, le=100
    )
    heartbeat_interval_s: Seconds = setting(
        30.0, about="Seconds between two heartbeats of a node that only heartbeats and pulls.", gt=0, le=3_600
    )
    device_timeout_s: Seconds = setting(
        300.0, about="Seconds of silence after which such a node is taken for lost.", gt=0, le=86_400
    )
    alert_failure_rate: Factor = setting(
        0.1, about="The share of executions that end badly above which the failure rate is an alert.", ge=0, le=1
    )
    alert_queue_size: Count = setting(1_000, about="The number of waiting tasks above which it is an alert.", ge=1)
    alert_avg_duration_s: Seconds = setting(
        300.0,
        about="The average duration of executions, in seconds, above which it is an alert.",
        gt=0,
        le=limits.TIMEOUT_S_MAX,
    )
    alert_allow_hosts: CrawlHosts = setting(
        (),
        about="Hosts, addresses or networks that notices may be sent to although they are private, loopback or "
        "link-local; the named hosts also without TLS.",
    )
    public_url: Url | None = setting(
        None, about="The address under which people reach the installation: links in notices begin with it."
    )
    alert_watchdog_url: str | None = setting(
        None,
        about="An address that the leader calls once a minute (GET): a service that misses the calls reports that the "
        "installation is dead.",
        secret=True,
        max_length=2_000,
    )
    retain_tasks_days: Seconds = setting(30.0, about="Days that finished tasks are kept.", gt=0, le=36_500)
    retain_events_days: Seconds = setting(7.0, about="Days that events are kept.", gt=0, le=36_500)
    retain_gone_products_days: Seconds = setting(
        90.0,
        about="Days that products are kept after they were found to be gone; 0 keeps them for ever.",
        ge=0,
        le=36_500,
    )
    failed_attempts_per_minute: Count = setting(
        20, about="Wrong tokens a minute from one address before it is answered with 429.", ge=1
    )
    head_limit_bytes: Count = setting(
        32_768,
        about="Bytes that the head of a request may have, its first line and its headers; more is answered with 431.",
        ge=4_096,
        le=1_048_576,
    )
    head_timeout_s: Seconds = setting(
        10.0,
        about="Seconds that a caller may take to send the head of a request, or for its TLS handshake; then it is "
        "answered with 408.",
        ge=0.1,
        le=600,
    )
    unidentified_connections: Count = setting(
        2_000,
        about="Connections of callers who have shown no valid token, at most half of the files the process may open; "
        "over it the oldest of the address with the most is closed. Others are not counted.",
        ge=1,
    )
    unidentified_connections_per_address: Count = setting(
        128, about="The same limit for one address (IPv6: for one /64 network), after a second of grace.", ge=1
    )
    log_level: LogLevel = setting(
        "info",
        about="The least important log lines that are written: debug, info, warning, error or critical.",
    )
    log_file: LogFilePath | None = setting(
        None,
        about="A file that log lines are appended to; it may be rotated at any time. Standard error gets errors only.",
        shown="standard error",
    )
    log_format: LogFormat = setting(
        "auto", about="Log lines for people (console), for programs (json), or by what reads them (auto)."
    )
    api_docs: bool = setting(True, about="Whether the API serves its documentation at /docs.")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: one of them is missing")
        for name in ("tls_cert", "tls_key"):
            path: Path | None = getattr(self, name)
            if path is not None and not path.is_file():
                raise ValueError(f"{name}: there is no file {path}")
        if self.device_timeout_s <= self.heartbeat_interval_s:
            raise ValueError("device_timeout_s must be longer than heartbeat_interval_s")
        if self.retry_base_delay_s > self.retry_max_delay_s:
            raise ValueError("retry_base_delay_s must not be longer than retry_max_delay_s")
        if not self.priority_low <= self.priority_normal <= self.priority_high:
            raise ValueError("priority_high, priority_normal and priority_low: none may be above the one before it")
        return self


class StandaloneSettings(MasterSettings):
    """A master with agents beside it, started by one command."""

    section: ClassVar[str] = "standalone"

    nodes: Count = setting(1, about="Agents to start.", ge=1)
    max_workers: Count = setting(64, about=MAX_WORKERS, ge=1, le=limits.WORKERS_MAX)
    slots: Count = setting(4, about="Tasks that each agent runs at a time.", ge=1, le=limits.SLOTS_MAX)
    executors: Modules = setting((), about="Python modules with your own executors.")
    proxies_file: Folder | None = setting(
        None, about="A file with the proxies that crawls may name by their pool: a pool's name and a URL on each line."
    )

    @model_validator(mode="after")
    def _has_proxies(self) -> Self:
        if self.proxies_file is not None and not self.proxies_file.is_file():
            raise ValueError(f"proxies_file: there is no file {self.proxies_file}")
        return self

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        if self.nodes > self.max_workers:
            raise ValueError(f"nodes: {self.nodes} is more than max_workers allows, which is {self.max_workers}")
        return self
