"""Target hosts as people see them: the budget of each and its reason, how it answers, which nodes hold parts of the
budget and which wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.tokens import name_of
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.host import Host, HostLimits, HostNoteKind, HostShare, target_host
from crawlfleet.model.host_stats import ALL_HOSTS, KEEP_MS, MINUTE_S, Counted
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.principal import Principal
from crawlfleet.ports.broker import GRANTS, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.host_stats_store import HostFigureStore
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


class _Known(HostStore, HostFigureStore, Protocol):
    pass


class Hosts:
    def __init__(self, *, store: _Known, broker: Broker, clock: Clock, configure: Configure) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._configure = configure

    async def page(self, where: HostFilter, limit: int, after: str | None = None) -> list[HostReport]:
        usual = await self._usual()
        found = await self._store.list_hosts(where, self._clock.now(), limit, after)
        return [self._report(host, usual) for host in found]

    async def show(self, name: str) -> HostReport:
        """Return the report on one host. Raises NotFound for a host that was never requested and has no budget of its
        own."""
        host = await self._known(name)
        report = self._report(host, await self._usual())
        now = self._clock.now()
        recent = await self._store.host_history(host.name, MINUTE_S, now - RECENT_MS, now + 1, RECENT_MOST)
        return replace(
            report,
            shares=await self._store.host_shares(host.name),
            now=now,
            recent=recent,
            total=await self._store.host_total(host.name),
        )

    async def history(
        self, name: str, span_s: int, since: Instant | None, until: Instant | None, limit: int
    ) -> tuple[str, list[Counted]]:
        """Return the counts of a host, or of all of them (`*`), by minute or by hour. Raises NotFound."""
        host = ALL_HOSTS if name == ALL_HOSTS else (await self._known(name)).name
        until = self._clock.now() + 1 if until is None else until
        since = max(0, until - KEEP_MS[span_s]) if since is None else since
        if since > until:
            raise InvalidInput("not after `until`", field="since")
        return host, await self._store.host_history(host, span_s, since, until, limit)

    async def put(self, name: str, limits: HostLimits, by: Principal | str) -> HostReport:
        """Set the budget of a host; values that are left out have their defaults. Raises InvalidInput with the field
        named."""
        try:
            host = target_host(name)
        except ValueError as exc:
            raise InvalidInput(str(exc), field="host") from exc
        await self._store.set_host(host, _checked(limits), name_of(by), self._clock.now())
        await self._broker.signals.send_signals([GRANTS])
        return await self.show(host)

    async def reset(self, name: str, by: Principal | str) -> HostReport:
        """Set the host's budget back to the defaults."""
        host = await self._known(name)
        await self._store.set_host(host.name, HostLimits(), name_of(by), self._clock.now())
        await self._broker.signals.send_signals([GRANTS])
        return await self.show(host.name)

    async def forgive(self, name: str) -> bool:
        """End the host's back-off; returns False when it has none."""
        host = await self._known(name)
        if not backoff_after_quiet(host.backoff, self._clock.now()).level:
            return False
        await self._store.note_hosts([HostNote(host.name, HostNoteKind.FORGIVE)])
        await self._broker.signals.send_signals([GRANTS])
        return True

    async def _known(self, name: str) -> Host:
        try:
            written = target_host(name)
        except ValueError as exc:
            raise NotFound(f"no host: {exc}") from exc
        host = (await self._store.hosts([written])).get(written)
        if host is None and await self._store.host_total(written) is not None:
            # The host was requested only for a short time, between two passes of the leader.
            return Host(written)
        if host is None:
            raise NotFound(f"host {written} is not known: nothing was asked of it, and nothing set")
        return host

    async def _usual(self) -> HostLimits:
        values = (await self._configure.effective(DEFAULT_CLUSTER)).values
        return HostLimits(values["host_rate"], values["host_concurrency"], values["host_delay_s"])

    def _report(self, host: Host, usual: HostLimits) -> HostReport:
        now = self._clock.now()
        # The leader ends the back-off when a node wants the host again; people see what the budget would then be.
        host = replace(host, backoff=backoff_after_quiet(host.backoff, now))
        budget = effective_budget(host.limits, usual, host.crawl_delay_ms / 1000, host.backoff.level)
        return HostReport(host, budget, host.backoff.is_on(now))


def _checked(limits: HostLimits) -> HostLimits:
    read = {}
    for field, reader in (("rate", parse_rate), ("concurrency", parse_concurrency), ("delay_s", parse_delay)):
        value = getattr(limits, field)
        try:
            read[field] = None if value is None else reader(value)
        except ValueError as exc:
            raise InvalidInput(str(exc), field=field) from exc
    return HostLimits(**read)  # type: ignore[arg-type]
