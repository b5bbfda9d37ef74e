"""Measures the masters themselves: commits, the broker, certificates, versions, and channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from crawlfleet.control.alerts.alert_options import Certificate
from crawlfleet.control.alerts.alert_sampling import SampleRequest
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.model.alerts.alert import INSTALLATION_SCOPE, AlertChannel, AlertSample
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.leadership_store import LeadershipStore
from crawlfleet.scheduling.alerts.evaluation import Measurements
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

FAILED_ATTEMPTS = 3
"""Number of failed attempts in a row from which a channel counts as failing."""
_DAY_MS = 86_400_000


def one_sample(value: float | None, why: str = "", count: int = 0) -> Measurements:
    """Return the measurement of a rule about the whole installation."""
    return Measurements({INSTALLATION_SCOPE: AlertSample(INSTALLATION_SCOPE, value, count, why)})


class MasterSampler:
    kinds = ("store_slow", "broker_away", "no_leader", "certificate", "channel_failing", "version_mixed")
    every_s = 0.0

    def __init__(
        self,
        *,
        store: LeadershipStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        certificates: Callable[[], Iterable[Certificate]] = tuple,
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._leadership = leadership
        self._certificates = certificates

    async def measure(self, request: SampleRequest) -> Measurements:
        match request.rule.kind:
            case "store_slow":
                return self._measure_store(RULE_KINDS["store_slow"].window_s)
            case "broker_away":
                reason = self._broker.failure_reason
                return one_sample(float(reason is not None), f"The broker does not answer: {reason}." if reason else "")
            case "no_leader":
                # Who measures this leads; that no master leads is found by the watchers of all masters.
                return one_sample(0.0, "A master leads again.")
            case "certificate":
                samples = [_certificate_sample(each, request.now) for each in self._certificates()]
            case "channel_failing":
                samples = [_channel_sample(channel) for channel in request.book.channels]
            case _:
                return await self._measure_versions(request.now)
        return Measurements({sample.scope: sample for sample in samples})

    def _measure_store(self, window_s: float) -> Measurements:
        times = sorted(self._leadership.beat_times(self._clock.monotonic() - window_s))
        if not times:
            return one_sample(None)
        slow_s = times[ceil(len(times) * 0.99) - 1]
        return one_sample(slow_s, f"Commits take {slow_s * 1000:.0f} ms at the 99th percentile.", len(times))

    async def _measure_versions(self, now: Instant) -> Measurements:
        masters = await self._store.list_masters(now)
        # A master that has just been registered and has not reported yet has no version.
        alive = [each.identity for each in masters if each.is_alive and each.identity.version]
        versions = {identity.name: identity.version for identity in alive}
        names = ", ".join(f"{name} runs {version}" for name, version in sorted(versions.items()))
        return one_sample(float(len(set(versions.values())) > 1), f"Masters differ: {names}." if names else "")


def _certificate_sample(certificate: Certificate, now: Instant) -> AlertSample:
    days = (certificate.expires_at - now) / _DAY_MS
    why = f"The certificate of master {certificate.name} ends at {to_text(certificate.expires_at)}."
    return AlertSample(f"master:{certificate.name}", max(0.0, days), why=why)


def _channel_sample(channel: AlertChannel) -> AlertSample:
    scope = f"channel:{channel.name}"
    if channel.disabled_why:
        return AlertSample(scope, 1.0, why=f"Channel {channel.name} is disabled: {channel.disabled_why}.")
    is_failing = channel.is_enabled and channel.failures >= FAILED_ATTEMPTS
    why = f"Channel {channel.name} failed {channel.failures} times in a row: {channel.last_answer}"
    return AlertSample(scope, float(is_failing), why=why if is_failing else "")
