"""Finds the target hosts that hold up a running task, from what the leader keeps in the store, so that any master can.

The leader knows which hosts a node's session wants to request, not which of its executions does. So only the hosts that
the task's own parameters name are examined: hosts that a crawl found behind a link or a redirect are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.model.host import Host, target_host
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.host_store import HostStore
from crawlfleet.scheduling.explain.hosts import HostDemand, HostWait, host_waits
from crawlfleet.scheduling.hosts.budgets import effective_budget

NAMED_MOST = 5
"""Maximum number of hosts that are named as holding a task up; a list of URLs may name thousands."""


class AwaitedHosts:
    def __init__(self, *, store: HostStore, configure: Configure) -> None:
        self._store = store
        self._configure = configure

    async def find_waits(self, task: TaskRecord, now: Instant) -> list[HostWait]:
        if task.status is not TaskStatus.PROCESSING or task.node is None:
            return []
        granted = (await self._store.load_grants([task.node])).get(task.node)
        wanted = {share.host: share for share, _ in granted.shares if share.wanted} if granted else {}
        names = sorted(wanted.keys() & set(_parameter_hosts(task.parameters))) if wanted else []
        if not names:
            return []
        hosts, demands = await self._store.load_hosts(names), []
        defaults = self._configure.cached_config(DEFAULT_CLUSTER).settings.host_limits
        for name in names[: 4 * NAMED_MOST]:
            host = hosts.get(name, Host(name))
            budget = effective_budget(host.limits, defaults, host.crawl_delay_ms / 1000, host.backoff.level)
            sharing = {share.node for share in await self._store.host_shares(name) if share.wanted}
            demands.append(HostDemand(wanted[name], host.backoff, budget, len(sharing), host.recent_milli / 1000))
        return host_waits(demands, now)[:NAMED_MOST]


class _Urls(msgspec.Struct):
    url: Any = None
    urls: Any = None
    start_urls: Any = None


_decode_urls = msgspec.json.Decoder(_Urls).decode


def _parameter_hosts(parameters: bytes) -> Iterator[str]:
    """Yield the hosts of the parameters, spelled as in their budgets."""
    try:
        named = _decode_urls(parameters)
    except msgspec.MsgspecError:
        return
    for listed in ([named.url], named.urls, named.start_urls):
        for url in listed if isinstance(listed, list) else ():
            try:
                yield target_host(urlsplit(url).netloc.rpartition("@")[2])
            except (ValueError, AttributeError, TypeError):
                continue
