"""What people see and do with alerts: the list with its reasons, acknowledgements, silences, notices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from crawlfleet.control.alerts.alert_rules import AlertRules
from crawlfleet.control.alerts.notice_maker import unreceived_rules
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.alerts.alert import AlertRule, AlertState, AlertStatus, Silence
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.instants import Instant
from crawlfleet.ports.alert_store import AlertStore, NoticeStatus, NoticeStore, StoredNotice
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.alerts.muting import ActiveAlerts, mute_reason
from crawlfleet.scheduling.alerts.rule_changes import check_matchers, check_silence_span

PAGE_MAX = 1_000


class AlertReport(NamedTuple):
    """An alert with its rule, and why no notice of it is sent at present."""

    state: AlertState
    rule: AlertRule
    muted_why: str


class AlertsStore(AlertStore, NoticeStore, Protocol):
    """The part of the store for people's view of alerts."""


class Alerts:
    def __init__(self, *, store: AlertsStore, clock: Clock, id_factory: IdFactory, rules: AlertRules) -> None:
        self._store = store
        self._clock = clock
        self._ids = id_factory
        self._rules = rules

    async def list_alerts(self, rule: str | None = None, status: AlertStatus | None = None) -> list[AlertReport]:
        """Return the alerts that are not ok: firing ones first, then by the instant of their change."""
        now = self._clock.now()
        book = await self._store.load_alerts(now)
        rules = await self._rules.rules_in_force(book)
        active = ActiveAlerts(book.states.values(), rules)
        unreceived = unreceived_rules(rules.values(), book.channels)
        reports = [
            AlertReport(
                state,
                rules[state.rule],
                mute_reason(state, rules[state.rule], active, book.silences, now)
                or ("no channel receives it" if state.rule in unreceived else ""),
            )
            for state in book.states.values()
            if state.rule in rules
            and state.status is not AlertStatus.OK
            and rule in (None, state.rule)
            and status in (None, state.status)
        ]
        return sorted(reports, key=lambda each: (not each.state.status.is_active, -each.state.since_at, each.state.key))

    async def count_firing(self) -> dict[tuple[str, str], int]:
        """Return the number of alerts that fire by rule and severity."""
        counts: dict[tuple[str, str], int] = {}
        for report in await self.list_alerts():
            if report.state.status.is_active:
                key = (report.rule.name, report.rule.severity.value)
                counts[key] = counts.get(key, 0) + 1
        return counts

    async def acknowledge(self, rule: str, scope: str, by: str, why: str) -> AlertState:
        """Acknowledge an alert: it is quiet until it recovers. Raises NotFound, Conflict."""
        return await self._store.acknowledge_alert(rule, scope, by, why, self._clock.now())

    async def add_silence(
        self, matchers: Mapping[str, str], starts_at: Instant | None, until_at: Instant, why: str, by: str
    ) -> Silence:
        """Raises InvalidInput, OverLimit."""
        now = self._clock.now()
        begin = now if starts_at is None else starts_at
        check_matchers(matchers)
        check_silence_span(begin, until_at, now)
        silence = Silence(self._ids.new_id(), dict(matchers), begin, until_at, why, by, now)
        await self._store.add_silence(silence)
        return silence

    async def end_silence(self, silence_id: int) -> Silence:
        """Raises NotFound."""
        return await self._store.end_silence(silence_id, self._clock.now())

    async def list_silences(self, limit: int = 100) -> list[Silence]:
        return await self._store.list_silences(_check_limit(limit))

    async def list_notices(
        self,
        limit: int = 100,
        before: int | None = None,
        channel: str | None = None,
        status: NoticeStatus | None = None,
    ) -> list[StoredNotice]:
        if before is not None and not 0 < before < 1 << limits.INTEGER_BITS:
            raise InvalidInput("the number of a notice", field="before")
        return await self._store.notice_page(_check_limit(limit), before, channel, status)


def _check_limit(limit: int) -> int:
    if not 0 < limit <= PAGE_MAX:
        raise InvalidInput(f"1 to {PAGE_MAX}", field="limit")
    return limit
