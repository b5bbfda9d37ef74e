"""The health of the proxies of a node's pools, as far as its crawls have used them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant

PROXIES_MAX = 2_000
"""Largest number of proxies that one node reports; of more, those with failures come first."""


class ProxyHealth(NamedTuple):
    """The health of one proxy of a pool."""

    pool: str
    proxy: str
    """Host and port; user and password are known to the node alone."""
    uses: int = 0
    """Number of requests sent by the proxy."""
    failures: int = 0
    """Number of failures in a row."""
    down_for_ms: int = 0
    """Span for which the proxy is still left out; 0 when it is used."""
    latency_ms: int = 0
    last_failure: str = ""


class NodeProxies(NamedTuple):
    """A node's report on its proxies."""

    node: NodeId
    proxies: tuple[ProxyHealth, ...]
    reported_at: Instant


def merge_health(processes: Iterable[Mapping[tuple[str, str], ProxyHealth]]) -> list[ProxyHealth]:
    """Merge the health of each proxy over the processes of a node, each of which knows only its own requests.

    A proxy is down only while every process that has used it leaves it out.
    """
    merged: dict[tuple[str, str], ProxyHealth] = {}
    for process in processes:
        for key, health in process.items():
            known = merged.get(key)
            merged[key] = health if known is None else _merge_two(known, health)
    ordered = sorted(merged.values(), key=lambda health: (health.failures == 0, health.pool, health.proxy))
    return sorted(ordered[:PROXIES_MAX], key=lambda health: (health.pool, health.proxy))


def _merge_two(one: ProxyHealth, other: ProxyHealth) -> ProxyHealth:
    if not one.uses or not other.uses:
        return one if one.uses else other
    failed = one if one.failures >= other.failures else other
    latencies = [health.latency_ms for health in (one, other) if health.latency_ms]
    return failed._replace(
        uses=one.uses + other.uses,
        down_for_ms=min(one.down_for_ms, other.down_for_ms),
        latency_ms=sum(latencies) // len(latencies) if latencies else 0,
    )
