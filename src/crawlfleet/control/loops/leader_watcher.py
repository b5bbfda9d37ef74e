"""Watches, on every master, that some master leads: without a leader no other alert can fire.

The masters that see the same silence write one state and its notices: the first one wins. While the store does not
answer, nothing can be written: each master then sends a notice by itself, with an id made of the last heartbeat that it
saw, so that receivers recognise copies. When a leader is back, its first pass finds the alert and lets it recover.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from crawlfleet.control.alerts.alert_options import AlertOptions
from crawlfleet.control.alerts.alert_rules import AlertRules
from crawlfleet.control.alerts.notice_maker import NoticeMaker, is_receiver
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import Loop, log
from crawlfleet.errors import Unavailable
from crawlfleet.model.alerts.alert import (
    INSTALLATION_SCOPE,
    AlertChannel,
    AlertRule,
    AlertState,
    AlertStatus,
    Announced,
)
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Notice, NoticeState
from crawlfleet.ports.alert_store import AlertBook, AlertChanges, NewNotice
from crawlfleet.ports.broker import NOTICES, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.leadership_store import LeaderRow
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.alerts.muting import ActiveAlerts, mute_reason
from crawlfleet.scheduling.alerts.notice_plan import GroupMessage, MessageItem

RULE = "no_leader"
REMEMBER_S = 60.0
"""Span after which rule and channels are read again, to be known should the store go away."""
_KEY = (RULE, INSTALLATION_SCOPE)


class LeaderWatcher(Loop):
    name = "leader_watcher"
    pause_s = 1.0

    def __init__(
        self,
        *,
        store: Store,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        rules: AlertRules,
        maker: NoticeMaker,
        options: AlertOptions,
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._broker = broker
        self._leadership = leadership
        self._rules = rules
        self._maker = maker
        self._factory = options.factory
        self._options = options
        self._row: LeaderRow | None = None
        self._row_at = clock.monotonic()
        self._read_at: float | None = None
        self._rule: AlertRule | None = None
        self._channels: Sequence[AlertChannel] = ()
        self._sent_alone: Notice | None = None
        """Notice that this master sent by itself while the store was away."""

    async def run_once(self, now: Instant) -> object:
        now_mono = self._clock.monotonic()
        try:
            row = await self._store.read_leader()
            await self._remember(now)
        except Unavailable as exc:
            if self._is_overdue(now_mono):
                self._leadership.is_unled = True
                await self._send_alone(f"The store does not answer: {exc.told}.", now)
            raise
        if self._leadership.term is not None or row != self._row:
            self._row, self._row_at = row, now_mono
            self._leadership.is_unled = False
            if self._leadership.term is not None or self._sent_alone is not None:
                await self._recover_alone(now)
            return None
        if self._is_overdue(now_mono):
            self._leadership.is_unled = True
            await self._report_silence(row, now)
        return None

    def _is_overdue(self, now_mono: float) -> bool:
        rule = self._rule
        return rule is not None and rule.is_enabled and now_mono - self._row_at >= rule.for_s

    async def _remember(self, now: Instant) -> None:
        now_mono = self._clock.monotonic()
        if self._read_at is None or now_mono - self._read_at >= REMEMBER_S:
            book = await self._store.load_alerts(now)
            self._rule = (await self._rules.rules_in_force(book))[RULE]
            self._channels, self._read_at = book.channels, now_mono

    async def _report_silence(self, row: LeaderRow, now: Instant) -> None:
        book = await self._store.load_alerts(now)
        rules = await self._rules.rules_in_force(book)
        rule, before = rules[RULE], book.states.get(_KEY)
        if before is not None and before.status is AlertStatus.FIRING:
            return
        why = f"No master has led for {round(self._clock.monotonic() - self._row_at)} s."
        state = AlertState(
            *_KEY, AlertStatus.FIRING, now, now, 1.0, now, why, announced=Announced.FIRING, announced_at=now
        )
        changes = AlertChanges([state], notices=self._notices(rule, state, book, rules, now))
        if await self._store.record_unled_alerts(changes, now, row):
            log.warning("no_leader", holder=row.holder, term=row.term, notices=len(changes.notices))
            await self._broker.signals.send_signals([NOTICES])

    def _notices(
        self, rule: AlertRule, state: AlertState, book: AlertBook, rules: dict[str, AlertRule], now: Instant
    ) -> list[NewNotice]:
        if mute_reason(state, rule, ActiveAlerts([], rules), book.silences, now):
            return []
        message = GroupMessage(rule, INSTALLATION_SCOPE, NoticeState.FIRING, (MessageItem(NoticeState.FIRING, state),))
        return self._maker.make_notices([message], book.channels, now)

    async def _send_alone(self, why: str, now: Instant) -> None:
        rule, row = self._rule, self._row
        if self._sent_alone is not None or rule is None or row is None:
            return
        self._sent_alone = Notice(
            id=f"no-leader-{row.term}-{row.beats}",
            state=NoticeState.FIRING,
            rule=rule.name,
            severity=rule.severity,
            scope=INSTALLATION_SCOPE,
            created_at=now,
            value=1.0,
            threshold=rule.threshold,
            since=now,
            why=why,
            link=self._options.public_url,
            installation=self._options.installation,
        )
        log.error("store_away_reported", why=why, channels=len(self._channels))
        await self._send_to_all(self._sent_alone, now)

    async def _recover_alone(self, now: Instant) -> None:
        sent, self._sent_alone = self._sent_alone, None
        if sent is not None:
            notice = Notice(
                id=f"{sent.id}-recovered",
                state=NoticeState.RECOVERED,
                rule=sent.rule,
                severity=sent.severity,
                scope=sent.scope,
                created_at=now,
                since=sent.since,
                why="The store answers again, and a master leads.",
                link=sent.link,
                installation=sent.installation,
            )
            await self._send_to_all(notice, now)

    async def _send_to_all(self, notice: Notice, now: Instant) -> None:
        """Send a notice to every channel once. There is no store to keep it in: a channel that refuses misses it."""
        if self._factory is None or self._rule is None:
            return
        rule, factory = self._rule, self._factory

        async def send_to(channel: AlertChannel) -> None:
            opened = factory.open_channel(channel.kind, channel.fields, channel.language)
            try:
                delivery = await opened.send(notice, now)
                log.info("notice_sent_alone", channel=channel.name, answer=delivery.answer)
            finally:
                await opened.close()

        await asyncio.gather(*(send_to(channel) for channel in self._channels if is_receiver(rule, channel)))
