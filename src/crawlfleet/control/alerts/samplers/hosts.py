"""Measures target hosts: those that block requests, or keep the crawlers in a long back-off."""

from __future__ import annotations

from crawlfleet.control.alerts.alert_sampling import SampleRequest
from crawlfleet.model.alerts.alert import AlertSample
from crawlfleet.ports.alert_store import AlertSampleStore, HostBlocks
from crawlfleet.scheduling.alerts.evaluation import Measurements
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

BACKOFF_LEVEL = 5
"""Level of the back-off at which a host counts as blocked, whatever its figures are."""
MAX_HOSTS = 1_000


class HostSampler:
    kinds = ("host_blocked",)
    every_s = 10.0

    def __init__(self, *, store: AlertSampleStore) -> None:
        self._store = store

    async def measure(self, request: SampleRequest) -> Measurements:
        since = request.now - RULE_KINDS[request.rule.kind].window_s * 1000
        hosts = await self._store.blocked_hosts(since, request.now, BACKOFF_LEVEL, MAX_HOSTS)
        return Measurements({f"host:{host.host}": _host_sample(host) for host in hosts})


def _host_sample(host: HostBlocks) -> AlertSample:
    scope = f"host:{host.host}"
    if host.level >= BACKOFF_LEVEL:
        why = f"{host.host} is in back-off of level {host.level}: {host.reason}."
        # A host in back-off gets few requests: their number is no reason to wait.
        return AlertSample(scope, 1.0, count=1 << 30, why=why)
    value = host.blocked / host.requests if host.requests else None
    why = f"{host.host} blocked {host.blocked} of {host.requests} requests."
    return AlertSample(scope, value, count=host.requests, why=why)
