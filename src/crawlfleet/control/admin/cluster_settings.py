"""Run-time settings of a cluster: their values as one record, and the table of what each may be set to."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypedDict

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.host import HostLimits, crawl_host
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.queue import PriorityClasses
from crawlfleet.model.task import RetryPolicy
from crawlfleet.observe.log_level import parse_level
from crawlfleet.scheduling.hosts.budgets import parse_concurrency, parse_delay, parse_rate
from crawlfleet.scheduling.nodes.health import Thresholds
from crawlfleet.scheduling.placement.strategies import BUILT_IN, DEFAULT_STRATEGY
from crawlfleet.wire.field_messages import unknown_name
from crawlfleet.wire.tasks import storage_problem

SYNC_INTERVAL_S_MAX = 3.0
"""Maximum interval between two syncs, a third of the default lease: two lost syncs in a row must not cost it."""
MAX_WAITING_DEFAULT = 5_000_000
MAX_HOSTS = 1_000
MAX_REGIONS = 1_000
MAX_OVERCOMMIT = 100.0
_COUNTRY = re.compile(r"[A-Za-z]{2}")
_HEALTH = Thresholds()
_RETRY = RetryPolicy()
_CLASSES = PriorityClasses()


class RegionPlace(TypedDict):
    """Where a region is, as it is stored."""

    country: str
    latitude: float
    longitude: float


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Every setting of a cluster with the value that is in effect. The fields have the names and the order that the
    stored JSON and the API use."""

    strategy: str = DEFAULT_STRATEGY
    slots: int | None = None
    concurrency: str = "fixed"
    slots_min: int = 1
    slots_max: int = 64
    sync_interval_s: float = SYNC_INTERVAL_S_MAX
    task_timeout_s: int = limits.TIMEOUT_S_DEFAULT
    max_retries: int = 3
    retry_base_delay_s: float = _RETRY.base_delay_s
    retry_max_delay_s: float = _RETRY.max_delay_s
    allow_hosts: list[str] = field(default_factory=list)
    host_rate: float = 10.0
    host_concurrency: int = 8
    host_delay_s: float = 0.0
    max_waiting: int = MAX_WAITING_DEFAULT
    overcommit: float = 1.0
    regions: Mapping[str, RegionPlace] = field(default_factory=dict)
    preemption: bool = True
    preemption_gap: int = 2
    preemptions_per_minute: int = 60
    priority_high: int = _CLASSES.high
    priority_normal: int = _CLASSES.normal
    priority_low: int = _CLASSES.low
    alert_failure_rate: float = 0.1
    alert_queue_size: int = 1_000
    alert_avg_duration_s: float = 300.0
    health_cpu_degraded: float | None = _HEALTH.cpu_degraded
    health_cpu_unhealthy: float | None = _HEALTH.cpu_unhealthy
    health_memory_degraded: float | None = _HEALTH.memory_degraded
    health_memory_unhealthy: float | None = _HEALTH.memory_unhealthy
    health_crash_rate_degraded: float | None = _HEALTH.crash_rate_degraded
    health_crash_rate_unhealthy: float | None = _HEALTH.crash_rate_unhealthy
    health_network_rate_degraded: float | None = _HEALTH.network_rate_degraded
    health_network_rate_unhealthy: float | None = _HEALTH.network_rate_unhealthy
    health_start_latency_degraded_s: float | None = _HEALTH.start_latency_degraded_s
    health_start_latency_unhealthy_s: float | None = _HEALTH.start_latency_unhealthy_s
    health_unreachable_degraded: float | None = _HEALTH.unreachable_degraded
    health_unreachable_unhealthy: float | None = _HEALTH.unreachable_unhealthy
    health_hold_s: float = _HEALTH.hold_s
    health_recover_s: float = _HEALTH.recover_s
    log_level_nodes: str | None = None
    log_level_masters: str | None = None

    @property
    def host_limits(self) -> HostLimits:
        """The limits of a host that has none of its own."""
        return HostLimits(self.host_rate, self.host_concurrency, self.host_delay_s)

    @property
    def priority_classes(self) -> PriorityClasses:
        return PriorityClasses(self.priority_high, self.priority_normal, self.priority_low)

    def health_thresholds(self) -> Thresholds:
        return Thresholds(
            cpu_degraded=self.health_cpu_degraded,
            cpu_unhealthy=self.health_cpu_unhealthy,
            memory_degraded=self.health_memory_degraded,
            memory_unhealthy=self.health_memory_unhealthy,
            crash_rate_degraded=self.health_crash_rate_degraded,
            crash_rate_unhealthy=self.health_crash_rate_unhealthy,
            network_rate_degraded=self.health_network_rate_degraded,
            network_rate_unhealthy=self.health_network_rate_unhealthy,
            start_latency_degraded_s=self.health_start_latency_degraded_s,
            start_latency_unhealthy_s=self.health_start_latency_unhealthy_s,
            unreachable_degraded=self.health_unreachable_degraded,
            unreachable_unhealthy=self.health_unreachable_unhealthy,
            hold_s=self.health_hold_s,
            recover_s=self.health_recover_s,
        )

    def as_values(self) -> dict[str, Any]:
        """Return the values by name, as the API shows them."""
        return {setting.name: getattr(self, setting.name) for setting in fields(self)}


class Setting(NamedTuple):
    """How a value of a setting is checked, and where it may be set."""

    read: Callable[[Any], Any]
    """Function that returns the value as it is stored; it raises ValueError with what is expected."""
    is_for_all: bool = False
    """Whether the setting holds for the whole installation; it is set at the default cluster."""


def _whole_number_reader(minimum: int, maximum: int) -> Callable[[Any], int]:
    def read_whole_number(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ValueError(f"a whole number from {minimum} to {maximum}")
        return value

    return read_whole_number


def _number_reader(minimum: float, maximum: float) -> Callable[[Any], float]:
    def read_number(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
            raise ValueError(f"a number from {minimum:g} to {maximum:g}")
        return value

    return read_number


def _limit_reader(minimum: float, maximum: float) -> Callable[[Any], float | None]:
    """Return the reader of a limit that null switches off."""
    read_number = _number_reader(minimum, maximum)

    def read_limit(value: Any) -> float | None:
        if value is None:
            return None
        try:
            return read_number(value)
        except ValueError as exc:
            raise ValueError(f"{exc}, or null, which switches the rule off") from exc

    return read_limit


def _read_flag(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise ValueError("true or false")


def _word_reader(*words: str) -> Callable[[Any], str]:
    def read_word(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return value

    return read_word


def _read_log_level(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return parse_level(value)
    except ValueError as exc:
        raise ValueError(f"{exc}, or null for the level that each process was started with") from exc


def _read_name(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a text")  # noqa: TRY004 - the caller handles only ValueError
    return value


def _read_regions(value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping) or len(value) > MAX_REGIONS:
        raise ValueError(f"at most {MAX_REGIONS} names, each with country, latitude and longitude")
    return {_check_region_name(name): _read_region(name, place) for name, place in value.items()}


def _check_region_name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= limits.LABEL_CHARS or storage_problem(name):
        raise ValueError(f"each name a text of 1 to {limits.LABEL_CHARS} characters")
    return name


def _read_region(name: str, place: Any) -> dict[str, Any]:
    if not isinstance(place, Mapping) or place.keys() != {"country", "latitude", "longitude"}:
        raise ValueError(f"{name}: needs country, latitude and longitude, and nothing else")
    country = place["country"]
    if not isinstance(country, str) or not _COUNTRY.fullmatch(country):
        raise ValueError(f"{name}: country: two letters, such as de")
    try:
        north, east = _number_reader(-90, 90)(place["latitude"]), _number_reader(-180, 180)(place["longitude"])
    except ValueError as exc:
        raise ValueError(f"{name}: latitude from -90 to 90, longitude from -180 to 180") from exc
    return {"country": country.lower(), "latitude": north, "longitude": east}


def _read_hosts(value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or len(value) > MAX_HOSTS:
        raise ValueError(f"a list of at most {MAX_HOSTS} hosts")
    return sorted({crawl_host(each) if isinstance(each, str) else _refuse_value(each) for each in value})


def _refuse_value(value: Any) -> str:
    raise ValueError(f"each a text, not {type(value).__name__}")


_share, _seconds = _limit_reader(0, 1), _limit_reader(0, 3_600)
_priority = _whole_number_reader(limits.PRIORITY_MIN, limits.PRIORITY_MAX)
SETTINGS: Mapping[str, Setting] = {
    "strategy": Setting(_read_name),
    "slots": Setting(_whole_number_reader(0, limits.SLOTS_MAX)),
    "concurrency": Setting(_word_reader("fixed", "auto")),
    "slots_min": Setting(_whole_number_reader(1, limits.SLOTS_MAX)),
    "slots_max": Setting(_whole_number_reader(1, limits.SLOTS_MAX)),
    "sync_interval_s": Setting(_number_reader(0.2, SYNC_INTERVAL_S_MAX)),
    "task_timeout_s": Setting(_whole_number_reader(1, limits.TIMEOUT_S_MAX)),
    "max_retries": Setting(_whole_number_reader(0, limits.RETRIES_MAX)),
    "retry_base_delay_s": Setting(_number_reader(0, limits.RETRY_BASE_DELAY_S_MAX)),
    "retry_max_delay_s": Setting(_number_reader(0, limits.RETRY_DELAY_S_MAX)),
    "allow_hosts": Setting(_read_hosts),
    "host_rate": Setting(parse_rate, is_for_all=True),
    "host_concurrency": Setting(parse_concurrency, is_for_all=True),
    "host_delay_s": Setting(parse_delay, is_for_all=True),
    "max_waiting": Setting(_whole_number_reader(0, 10**12), is_for_all=True),
    "overcommit": Setting(_number_reader(0.1, MAX_OVERCOMMIT), is_for_all=True),
    "regions": Setting(_read_regions, is_for_all=True),
    "preemption": Setting(_read_flag, is_for_all=True),
    "preemption_gap": Setting(_whole_number_reader(1, limits.PRIORITY_MAX), is_for_all=True),
    "preemptions_per_minute": Setting(_whole_number_reader(0, 100_000), is_for_all=True),
    "priority_high": Setting(_priority, is_for_all=True),
    "priority_normal": Setting(_priority, is_for_all=True),
    "priority_low": Setting(_priority, is_for_all=True),
    "alert_failure_rate": Setting(_number_reader(0, 1), is_for_all=True),
    "alert_queue_size": Setting(_whole_number_reader(1, 10**12), is_for_all=True),
    "alert_avg_duration_s": Setting(_number_reader(0.001, limits.TIMEOUT_S_MAX), is_for_all=True),
    "health_cpu_degraded": Setting(_share),
    "health_cpu_unhealthy": Setting(_share),
    "health_memory_degraded": Setting(_share),
    "health_memory_unhealthy": Setting(_share),
    "health_crash_rate_degraded": Setting(_share),
    "health_crash_rate_unhealthy": Setting(_share),
    "health_network_rate_degraded": Setting(_share),
    "health_network_rate_unhealthy": Setting(_share),
    "health_start_latency_degraded_s": Setting(_seconds),
    "health_start_latency_unhealthy_s": Setting(_seconds),
    "health_unreachable_degraded": Setting(_share),
    "health_unreachable_unhealthy": Setting(_share),
    "health_hold_s": Setting(_number_reader(0, 3_600)),
    "health_recover_s": Setting(_number_reader(0, 3_600)),
    "log_level_nodes": Setting(_read_log_level),
    "log_level_masters": Setting(_read_log_level, is_for_all=True),
}
"""The setting of each field of `ClusterSettings`, by its name."""
_DEFAULTS = ClusterSettings()


def check_settings(
    cluster: str, values: Mapping[str, Any], strategies: Collection[str] = tuple(BUILT_IN)
) -> dict[str, Any]:
    """Return the values as they are stored. Raises InvalidInput with the setting named."""
    settings = {}
    for name, value in values.items():
        setting = SETTINGS.get(name)
        if setting is None:
            raise InvalidInput(
                unknown_name(str(name), SETTINGS, shown="no such setting"), field=str(name)[: limits.NAME_CHARS]
            )
        if setting.is_for_all and cluster != DEFAULT_CLUSTER:
            raise InvalidInput(f"is of the whole installation: set it at cluster {DEFAULT_CLUSTER}", field=name)
        try:
            settings[name] = setting.read(value)
        except ValueError as exc:
            raise InvalidInput(str(exc), field=name) from exc
        if name == "strategy" and settings[name] not in strategies:
            raise InvalidInput(f"one of {', '.join(sorted(strategies))}", field=name)
    _check_order(settings, "slots_min", "slots_max")
    _check_order(settings, "retry_base_delay_s", "retry_max_delay_s")
    _check_order(settings, "priority_low", "priority_normal")
    _check_order(settings, "priority_normal", "priority_high")
    return settings


def _check_order(settings: Mapping[str, Any], lower: str, upper: str) -> None:
    """Refuse a value above that of another setting, where one of the two is set."""
    minimum, maximum = (settings.get(name, getattr(_DEFAULTS, name)) for name in (lower, upper))
    if minimum > maximum and (lower in settings or upper in settings):
        raise InvalidInput(f"{minimum:g} is above {upper}, {maximum:g}", field=lower if lower in settings else upper)
