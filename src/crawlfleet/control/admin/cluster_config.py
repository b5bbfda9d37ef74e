"""Run-time configuration of a cluster: a small table of what can be set, versions of what was set, and by whom."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from crawlfleet.control.admin.tokens import actor_name
from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import limits
from crawlfleet.model.host import crawl_host
from crawlfleet.model.node import DEFAULT_CLUSTER, Node
from crawlfleet.model.principal import Principal
from crawlfleet.ports.admin_store import ClusterConfig, ConfigStore
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.hosts.budgets import parse_concurrency, parse_delay, parse_rate
from crawlfleet.scheduling.nodes.health import Thresholds
from crawlfleet.scheduling.placement.strategies import BUILT_IN, DEFAULT_STRATEGY
from crawlfleet.wire.field_messages import unknown_name
from crawlfleet.wire.tasks import unstorable

HISTORY_MOST = 1_000
SYNC_INTERVAL_S_MAX = 3.0
"""Maximum interval between two syncs, a third of the default lease: two lost syncs in a row must not cost it."""
MAX_WAITING_DEFAULT = 5_000_000
HOSTS_MOST = 1_000
REGIONS_MOST = 1_000
OVERCOMMIT_MOST = 100.0
_COUNTRY = re.compile(r"[A-Za-z]{2}")
_CLUSTERS_KEPT = 10_000
"""Maximum number of cached clusters: tasks may name clusters that do not exist, and these must not fill the memory."""


class Setting(NamedTuple):
    default: Any
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


def _read_name(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a text")  # noqa: TRY004 - the caller handles only ValueError
    return value


def _read_regions(value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, Mapping) or len(value) > REGIONS_MOST:
        raise ValueError(f"at most {REGIONS_MOST} names, each with country, latitude and longitude")
    return {_check_region_name(name): _read_region(name, place) for name, place in value.items()}


def _check_region_name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= limits.LABEL_CHARS or unstorable(name):
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
    if not isinstance(value, list | tuple) or len(value) > HOSTS_MOST:
        raise ValueError(f"a list of at most {HOSTS_MOST} hosts")
    return sorted({crawl_host(each) if isinstance(each, str) else _refuse_value(each) for each in value})


def _refuse_value(value: Any) -> str:
    raise ValueError(f"each a text, not {type(value).__name__}")


HEALTH_PREFIX = "health_"
_share, _seconds = _limit_reader(0, 1), _limit_reader(0, 3_600)
_HEALTH = Thresholds()
SETTINGS: Mapping[str, Setting] = {
    "strategy": Setting(DEFAULT_STRATEGY, _read_name),
    "slots": Setting(None, _whole_number_reader(0, limits.SLOTS_MAX)),
    "concurrency": Setting("fixed", _word_reader("fixed", "auto")),
    "slots_min": Setting(1, _whole_number_reader(1, limits.SLOTS_MAX)),
    "slots_max": Setting(64, _whole_number_reader(1, limits.SLOTS_MAX)),
    "sync_interval_s": Setting(SYNC_INTERVAL_S_MAX, _number_reader(0.2, SYNC_INTERVAL_S_MAX)),
    "task_timeout_s": Setting(limits.TIMEOUT_S_DEFAULT, _whole_number_reader(1, limits.TIMEOUT_S_MAX)),
    "max_retries": Setting(3, _whole_number_reader(0, limits.RETRIES_MAX)),
    "allow_hosts": Setting([], _read_hosts),
    "host_rate": Setting(10.0, parse_rate, is_for_all=True),
    "host_concurrency": Setting(8, parse_concurrency, is_for_all=True),
    "host_delay_s": Setting(0.0, parse_delay, is_for_all=True),
    "max_waiting": Setting(MAX_WAITING_DEFAULT, _whole_number_reader(0, 10**12), is_for_all=True),
    "overcommit": Setting(1.0, _number_reader(0.1, OVERCOMMIT_MOST), is_for_all=True),
    "regions": Setting({}, _read_regions, is_for_all=True),
    "preemption": Setting(True, _read_flag, is_for_all=True),
    "preemption_gap": Setting(2, _whole_number_reader(1, limits.PRIORITY_MAX), is_for_all=True),
    "preemptions_per_minute": Setting(60, _whole_number_reader(0, 100_000), is_for_all=True),
    "health_cpu_degraded": Setting(_HEALTH.cpu_degraded, _share),
    "health_cpu_unhealthy": Setting(_HEALTH.cpu_unhealthy, _share),
    "health_memory_degraded": Setting(_HEALTH.memory_degraded, _share),
    "health_memory_unhealthy": Setting(_HEALTH.memory_unhealthy, _share),
    "health_crash_rate_degraded": Setting(_HEALTH.crash_rate_degraded, _share),
    "health_crash_rate_unhealthy": Setting(_HEALTH.crash_rate_unhealthy, _share),
    "health_network_rate_degraded": Setting(_HEALTH.network_rate_degraded, _share),
    "health_network_rate_unhealthy": Setting(_HEALTH.network_rate_unhealthy, _share),
    "health_start_latency_degraded_s": Setting(_HEALTH.start_latency_degraded_s, _seconds),
    "health_start_latency_unhealthy_s": Setting(_HEALTH.start_latency_unhealthy_s, _seconds),
    "health_unreachable_degraded": Setting(_HEALTH.unreachable_degraded, _share),
    "health_unreachable_unhealthy": Setting(_HEALTH.unreachable_unhealthy, _share),
    "health_hold_s": Setting(_HEALTH.hold_s, _number_reader(0, 3_600)),
    "health_recover_s": Setting(_HEALTH.recover_s, _number_reader(0, 3_600)),
}


SENT_TO_NODES = ("allow_hosts", "sync_interval_s")
"""Names of the settings that are sent to nodes."""


class Configure:
    fresh_s = 1.0
    """Maximum age in seconds of the cached configuration."""

    def __init__(
        self,
        *,
        store: ConfigStore,
        clock: Clock,
        defaults: Mapping[str, Any] | None = None,
        strategies: Collection[str] = tuple(BUILT_IN),
    ) -> None:
        """Create the service; `defaults` come from the master's own settings, under the same names and rules."""
        self._store = store
        self._clock = clock
        self._strategies = strategies
        self._defaults = {name: setting.default for name, setting in SETTINGS.items()}
        self._defaults |= check_settings(DEFAULT_CLUSTER, defaults or {}, strategies)
        self.mark = _defaults_mark(self._defaults)
        """Mark of the defaults that are sent to nodes: after a restart they may be others, at the same version."""
        self._newest: dict[str, ClusterConfig] = {}
        self._effective: dict[str, ClusterConfig] = {}
        self._read_at: float | None = None
        self._puts = 0
        self.reads = 0
        """Number of reads of the store: `cached_config` gives the same answers until the next one."""
        self._refresh_once = SingleFlight(self._read_configs, "configuration")

    @property
    def strategy_names(self) -> Collection[str]:
        """The names of strategies that a task or a cluster may use."""
        return self._strategies

    async def load_own_config(self, cluster: str) -> ClusterConfig:
        """Return the configuration that the cluster has of its own. Raises NotFound."""
        return await self._store.config(_check_cluster_name(cluster))

    async def put_config(
        self, cluster: str, values: Mapping[str, Any], by: Principal | str, expected_version: int | None = None
    ) -> ClusterConfig:
        """Set these values and no others, as the next version. Raises InvalidInput with the setting named, or
        Conflict."""
        settings = check_settings(cluster, values, self._strategies)
        now = self._clock.now()
        config = await self._store.put_config(
            _check_cluster_name(cluster), settings, actor_name(by), now, expected_version
        )
        self._puts += 1
        self._read_at = None
        return config

    async def list_versions(self, cluster: str, limit: int = 100) -> Sequence[ClusterConfig]:
        if not 0 < limit <= HISTORY_MOST:
            raise InvalidInput(f"1 to {HISTORY_MOST}", field="limit")
        return await self._store.config_history(_check_cluster_name(cluster), limit)

    async def load_effective_config(self, cluster: str) -> ClusterConfig:
        """Return every setting, with the cluster's own values over the defaults; at most a second old. An unknown
        cluster has the defaults."""
        await self.refresh()
        return self.cached_config(cluster)

    async def refresh(self) -> None:
        """Read the store when the cached configuration is a second old; to be called before `cached_config`, however
        often."""
        if not self.is_fresh():
            await self._refresh_once()

    def is_fresh(self) -> bool:
        return self._read_at is not None and self._clock.monotonic() - self._read_at < self.fresh_s

    def cached_config(self, cluster: str) -> ClusterConfig:
        """Return the same as `load_effective_config`, as of the last `refresh`; it is the same object until the store
        is read again."""
        config = self._effective.get(cluster)
        if config is None:
            if len(self._effective) >= _CLUSTERS_KEPT:
                self._effective.clear()
            config = self._over_defaults(self._newest.get(cluster) or ClusterConfig(cluster, 0, {}))
            self._effective[cluster] = config
        return config

    def cached_own_values(self, cluster: str) -> Mapping[str, Any]:
        """Return the values that the cluster has of its own, as of the last `refresh`."""
        config = self._newest.get(cluster)
        return config.values if config else {}

    def effective_slots(
        self, cluster: str, wanted: int | None, measured: int | None = None, follows_load: bool = False
    ) -> int | None:
        """Return the slots of a node: what a person set (`wanted`), or else what its load allows (`measured`) where
        slots follow the load, or else the setting of its cluster; None: as many as the node declares."""
        if wanted is not None:
            return wanted
        values = self.cached_config(cluster).values
        if measured is not None and (follows_load or values["concurrency"] == "auto"):
            return int(max(values["slots_min"], min(values["slots_max"], measured)))
        slots: int | None = values["slots"]
        return slots

    def with_effective_slots(self, node: Node) -> Node:
        """Return the node with the slots in effect, for callers that count slots, such as placement. A node that only
        sends heartbeats and pulls is assigned nothing, and has no slots."""
        if node.description.is_pull_only:
            return replace(node, slots_wanted=0)
        slots = self.effective_slots(
            node.description.cluster, node.slots_wanted, node.slots_measured, node.follows_load
        )
        return node if slots == node.slots_wanted else replace(node, slots_wanted=slots)

    def follows_load(self, node: Node) -> bool:
        """Return whether the node's slots follow what it measures."""
        if node.slots_wanted is not None:
            return False
        return node.follows_load or self.cached_config(node.description.cluster).values["concurrency"] == "auto"

    async def _read_configs(self) -> None:
        now_mono, puts = self._clock.monotonic(), self._puts
        self._newest = {config.cluster: config for config in await self._store.configs()}
        self._effective = {}
        self.reads += 1
        # This read may have missed a change that was made here meanwhile.
        self._read_at = now_mono if puts == self._puts else None

    def _over_defaults(self, config: ClusterConfig) -> ClusterConfig:
        # A value that a newer version of crawlfleet wrote, and that this version does not know, is ignored.
        own_values = {name: value for name, value in config.values.items() if name in SETTINGS}
        values = self._defaults | own_values
        return ClusterConfig(config.cluster, config.version, values, config.changed_by, config.changed_at)


def check_settings(
    cluster: str, values: Mapping[str, Any], strategies: Collection[str] = tuple(BUILT_IN)
) -> dict[str, Any]:
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
    minimum, maximum = (settings.get(name, SETTINGS[name].default) for name in ("slots_min", "slots_max"))
    if minimum > maximum:
        raise InvalidInput(f"{minimum} is above slots_max, {maximum}", field="slots_min")
    return settings


def _defaults_mark(defaults: Mapping[str, Any]) -> int:
    """Return the mark of the defaults; 0 for those that nodes have by themselves."""
    sent = {name: defaults[name] for name in SENT_TO_NODES}
    is_built_in = all(value == SETTINGS[name].default for name, value in sent.items())
    return 0 if is_built_in else zlib.crc32(repr(sent).encode()) or 1


def _check_cluster_name(cluster: str) -> str:
    if unstorable(cluster):
        raise NotFound("no cluster of this name")
    return cluster
