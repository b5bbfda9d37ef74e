"""Target hosts as people see them: the budget of each and its reason, how it answers, which nodes hold parts of the
budget and which wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.tokens import actor_name
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.host import Host, HostLimits, HostNoteKind, HostShare, target_host
from crawlfleet.model.host_stats import ALL_HOSTS, KEEP_MS, MINUTE_S, Counted
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.principal import Principal
from crawlfleet.ports.broker import GRANTS, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.host_store import HostFilter, HostNote, HostStore
from crawlfleet.scheduling.hosts.budgets import HostBudget, effective_budget, parse_concurrency, parse_delay, parse_rate
from crawlfleet.scheduling.hosts.host_backoff import backoff_after_quiet

RECENT_MS = 5 * 60_000
RECENT_MOST = 6


@dataclass(frozen=True, slots=True)
class HostReport:
    host: Host
    budget: HostBudget
    is_backing_off: bool
    shares: Sequence[HostShare] = ()
    """Parts of the host's budget by holder, only where one host is shown."""
    total: Counted | None = None
    """Total of all that was counted of the host, only where one host is shown."""
    recent: Sequence[Counted] = ()
    """Counts of the last minutes, only where one host is shown."""
    now: Instant = 0


class Hosts:
    def __init__(self, *, store: HostStore, broker: Broker, clock: Clock, configure: Configure) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._configure = configure

    async def list_hosts(self, where: HostFilter, limit: int, after: str | None = None) -> list[HostReport]:
        defaults = await self._load_default_limits()
        hosts = await self._store.list_hosts(where, self._clock.now(), limit, after)
        return [self._make_report(host, defaults) for host in hosts]

    async def get_host(self, name: str) -> HostReport:
        """Return the report on one host. Raises NotFound for a host that was never requested and has no budget of its
        own."""
        host = await self._find_host(name)
        report = self._make_report(host, await self._load_default_limits())
        now = self._clock.now()
        recent = await self._store.host_history(host.name, MINUTE_S, now - RECENT_MS, now + 1, RECENT_MOST)
        return replace(
            report,
            shares=await self._store.host_shares(host.name),
            now=now,
            recent=recent,
            total=await self._store.host_total(host.name),
        )

    async def list_counts(
        self, name: str, span_s: int, since: Instant | None, until: Instant | None, limit: int
    ) -> tuple[str, list[Counted]]:
        """Return the counts of a host, or of all of them (`*`), by minute or by hour. Raises NotFound."""
        host = ALL_HOSTS if name == ALL_HOSTS else (await self._find_host(name)).name
        until = self._clock.now() + 1 if until is None else until
        since = max(0, until - KEEP_MS[span_s]) if since is None else since
        if since > until:
            raise InvalidInput("not after `until`", field="since")
        return host, await self._store.host_history(host, span_s, since, until, limit)

    async def set_budget(self, name: str, limits: HostLimits, by: Principal | str) -> HostReport:
        """Set the budget of a host; values that are left out have their defaults. Raises InvalidInput with the field
        named."""
        try:
            host = target_host(name)
        except ValueError as exc:
            raise InvalidInput(str(exc), field="host") from exc
        await self._store.set_host(host, _check_limits(limits), actor_name(by), self._clock.now())
        await self._broker.signals.send_signals([GRANTS])
        return await self.get_host(host)

    async def reset_budget(self, name: str, by: Principal | str) -> HostReport:
        """Set the host's budget back to the defaults."""
        host = await self._find_host(name)
        await self._store.set_host(host.name, HostLimits(), actor_name(by), self._clock.now())
        await self._broker.signals.send_signals([GRANTS])
        return await self.get_host(host.name)

    async def end_backoff(self, name: str) -> bool:
        """End the host's back-off; returns False when it has none."""
        host = await self._find_host(name)
        if not backoff_after_quiet(host.backoff, self._clock.now()).level:
            return False
        await self._store.add_host_notes([HostNote(host.name, HostNoteKind.FORGIVE)])
        await self._broker.signals.send_signals([GRANTS])
        return True

    async def _find_host(self, name: str) -> Host:
        try:
            host_name = target_host(name)
        except ValueError as exc:
            raise NotFound(f"no host: {exc}") from exc
        host = (await self._store.load_hosts([host_name])).get(host_name)
        if host is None and await self._store.host_total(host_name) is not None:
            # The host was requested only for a short time, between two passes of the leader.
            return Host(host_name)
        if host is None:
            raise NotFound(f"host {host_name} is not known: nothing was asked of it, and nothing set")
        return host

    async def _load_default_limits(self) -> HostLimits:
        return (await self._configure.load_effective_config(DEFAULT_CLUSTER)).settings.host_limits

    def _make_report(self, host: Host, defaults: HostLimits) -> HostReport:
        now = self._clock.now()
        # The leader ends the back-off when a node wants the host again; people see what the budget would then be.
        host = replace(host, backoff=backoff_after_quiet(host.backoff, now))
        budget = effective_budget(host.limits, defaults, host.crawl_delay_ms / 1000, host.backoff.level)
        return HostReport(host, budget, host.backoff.is_on(now))


def _check_limits(limits: HostLimits) -> HostLimits:
    checked = {}
    for field, reader in (("rate", parse_rate), ("concurrency", parse_concurrency), ("delay_s", parse_delay)):
        value = getattr(limits, field)
        try:
            checked[field] = None if value is None else reader(value)
        except ValueError as exc:
            raise InvalidInput(str(exc), field=field) from exc
    return HostLimits(**checked)  # type: ignore[arg-type]
