"""Run-time configuration of a cluster: the settings in effect, the versions of what was set, and by whom."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crawlfleet.control.admin.cluster_settings import SETTINGS, ClusterSettings, check_settings
from crawlfleet.control.admin.tokens import actor_name
from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER, Node
from crawlfleet.model.principal import Principal
from crawlfleet.ports.admin_store import ClusterConfig, ConfigStore
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.placement.strategies import BUILT_IN
from crawlfleet.wire.tasks import storage_problem

MAX_HISTORY = 1_000
_MAX_CLUSTERS = 10_000
"""Maximum number of cached clusters: tasks may name clusters that do not exist, and these must not fill the memory."""


SENT_TO_NODES = ("allow_hosts", "sync_interval_s", "log_level_nodes")
"""Names of the settings that are sent to nodes."""


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """The configuration of a cluster in effect: its own values over the defaults."""

    cluster: str
    version: int
    """Version of the cluster's own configuration; 0 for none."""
    settings: ClusterSettings
    changed_by: str = ""
    changed_at: Instant | None = None


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
        self._defaults = replace(ClusterSettings(), **check_settings(DEFAULT_CLUSTER, defaults or {}, strategies))
        self.mark = _defaults_mark(self._defaults)
        """Mark of the defaults that are sent to nodes: after a restart they may be others, at the same version."""
        self._newest: dict[str, ClusterConfig] = {}
        self._effective: dict[str, EffectiveConfig] = {}
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
        return await self._store.cluster_config(_check_cluster_name(cluster))

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
        if not 0 < limit <= MAX_HISTORY:
            raise InvalidInput(f"1 to {MAX_HISTORY}", field="limit")
        return await self._store.config_history(_check_cluster_name(cluster), limit)

    async def load_effective_config(self, cluster: str) -> EffectiveConfig:
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

    def cached_config(self, cluster: str) -> EffectiveConfig:
        """Return the same as `load_effective_config`, as of the last `refresh`; it is the same object until the store
        is read again."""
        config = self._effective.get(cluster)
        if config is None:
            if len(self._effective) >= _MAX_CLUSTERS:
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
        settings = self.cached_config(cluster).settings
        if measured is not None and (follows_load or settings.concurrency == "auto"):
            return int(max(settings.slots_min, min(settings.slots_max, measured)))
        return settings.slots

    def with_effective_slots(self, node: Node, *, is_pulling: bool = False) -> Node:
        """Return the node with the slots in effect, for callers that count slots, such as placement. A node that only
        pulls has no slots but while `is_pulling`."""
        if node.description.is_pull_only and not is_pulling:
            return replace(node, slots_wanted=0)
        slots = self.effective_slots(
            node.description.cluster, node.slots_wanted, node.slots_measured, node.follows_load
        )
        return node if slots == node.slots_wanted else replace(node, slots_wanted=slots)

    def follows_load(self, node: Node) -> bool:
        """Return whether the node's slots follow what it measures."""
        if node.slots_wanted is not None:
            return False
        return node.follows_load or self.cached_config(node.description.cluster).settings.concurrency == "auto"

    async def _read_configs(self) -> None:
        now_mono, puts = self._clock.monotonic(), self._puts
        self._newest = {config.cluster: config for config in await self._store.cluster_configs()}
        self._effective = {}
        self.reads += 1
        # This read may have missed a change that was made here meanwhile.
        self._read_at = now_mono if puts == self._puts else None

    def _over_defaults(self, config: ClusterConfig) -> EffectiveConfig:
        # A value that a newer version of crawlfleet wrote, and that this version does not know, is ignored.
        own_values = {name: value for name, value in config.values.items() if name in SETTINGS}
        settings = replace(self._defaults, **own_values)
        return EffectiveConfig(config.cluster, config.version, settings, config.changed_by, config.changed_at)


def _defaults_mark(defaults: ClusterSettings) -> int:
    """Return the mark of the defaults; 0 for those that nodes have by themselves."""
    sent = {name: getattr(defaults, name) for name in SENT_TO_NODES}
    built_in = ClusterSettings()
    is_built_in = all(value == getattr(built_in, name) for name, value in sent.items())
    return 0 if is_built_in else zlib.crc32(repr(sent).encode()) or 1


def _check_cluster_name(cluster: str) -> str:
    if storage_problem(cluster):
        raise NotFound("no cluster of this name")
    return cluster
