"""Sends notices: takes due ones by lease, sends each, and marks it.

A master that dies between sending and marking leaves a lease that ends: the notice is sent again, with the same id. So
receivers get each notice at least once, and rarely twice. Each channel is served by a task of its own: one that hangs
does not hold up the others. The notifier works on the leader, and on any master while none leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol

from crawlfleet.control.alerts.notice_maker import NoticeMaker
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import Loop, log
from crawlfleet.errors import Unavailable
from crawlfleet.model.alerts.alert import AlertChannel
from crawlfleet.model.ids import made_at
from crawlfleet.model.instants import Instant, ms
from crawlfleet.observe.metrics import CounterSet
from crawlfleet.ports.alert_store import (
    AlertStore,
    ChannelResult,
    NewNotice,
    NoticeStatus,
    NoticeStore,
    SendResult,
    StoredNotice,
)
from crawlfleet.ports.broker import NOTICES, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.notice_channel import ChannelFactory, Delivery, NoticeChannel
from crawlfleet.scheduling.alerts.channel_budget import ChannelBudget, merge_notices, plan_sending
from crawlfleet.scheduling.alerts.notice_retry import retry_at

LEASE_MS = 60_000
"""Span for which taken notices are in the hands of one master; it is longer than sending what it takes at once."""
SERVE_S = 30.0
"""Span after which a channel's task gives back what it has not sent."""
BATCH = 200


class SendingStore(AlertStore, NoticeStore, Protocol):
    """The part of the store for sending notices."""


_RESULT_WORDS = {
    NoticeStatus.DELIVERED: "delivered",
    NoticeStatus.DUE: "refused",
    NoticeStatus.ABANDONED: "abandoned",
}
"""Results of an attempt, as the metrics name them; what was refused is tried again."""


class Notifier(Loop):
    name = "notifier"
    pause_s = 1.0

    def __init__(
        self,
        *,
        store: SendingStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        maker: NoticeMaker,
        factory: ChannelFactory | None,
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._broker = broker
        self._leadership = leadership
        self._maker = maker
        self._factory = factory
        self.attempts = CounterSet(("channel", "result"))
        """What this master sent, by channel and result."""
        self._budgets: dict[str, ChannelBudget] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._busy: set[str] = set()
        self._waiting: dict[str, list[StoredNotice]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await super().run()

    async def wait(self, pause_s: float) -> None:
        await self._broker.signals.wait_for_signal(NOTICES, pause_s)

    async def run_once(self, now: Instant) -> object:
        if self._factory is None or (self._leadership.term is None and not self._leadership.is_unled):
            # Another master leads and sends: it also knows what it sent in the last minute.
            self._budgets.clear()
            return None
        # Most of the time there is nothing to send: one look at an index, and no write.
        next_at = await self._store.next_notice_at()
        if next_at is None or next_at > now:
            return None
        leased = await self._store.lease_notices(now, LEASE_MS, BATCH)
        if not leased:
            return None
        channels = {channel.name: channel for channel in (await self._store.load_alerts(now)).channels}
        for stored in leased:
            self._waiting.setdefault(stored.channel, []).append(stored)
        for name in sorted(self._waiting.keys() - self._busy):
            if name in channels:
                await self._start(self._serve_channel(channels[name]))
            else:
                # It was removed just now, and its notices with it.
                del self._waiting[name]
        return None

    async def _start(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            await work
        else:
            self._tasks.create_task(work)

    async def _serve_channel(self, channel: AlertChannel) -> None:
        assert self._factory is not None
        self._busy.add(channel.name)
        opened = self._factory.open_channel(channel.kind, channel.fields, channel.language)
        try:
            while notices := self._waiting.pop(channel.name, None):
                await self._send_notices(channel, opened, notices)
        except Unavailable as exc:
            log.warning("notices_unmarked", channel=channel.name, error=str(exc), effect="they are sent again")
        except Exception:
            # A bug in one channel must not end the others: what it holds is due again when its lease ends.
            log.exception("channel_failed", channel=channel.name)
        finally:
            self._waiting.pop(channel.name, None)
            self._busy.discard(channel.name)
            await opened.close()

    async def _send_notices(
        self, channel: AlertChannel, opened: NoticeChannel, notices: Sequence[StoredNotice]
    ) -> None:
        began, now = self._clock.monotonic(), self._clock.now()
        budget = await self._budget(channel, now)
        rows = {stored.notice.id: stored for stored in notices}
        plan = plan_sending([stored.notice for stored in notices], budget, now)
        batch = [rows.pop(notice.id) for notice in plan.single]
        if plan.merged:
            merged = [rows.pop(notice.id) for notice in plan.merged]
            number, text = self._maker.new_id()
            digest = NewNotice(number, channel.name, merge_notices(text, plan.merged, now))
            if await self._store.merge_into_digest(digest, [stored.id for stored in merged], LEASE_MS, now):
                batch.append(replace(merged[0], id=number, tries=0, notice=digest.notice))
        await self._store.release_notices([stored.id for stored in rows.values()], budget.next_free_at(now))
        while batch:
            is_delivered = await self._send_notice(channel, opened, batch.pop(0))
            is_late = self._clock.monotonic() - began >= SERVE_S
            if batch and (is_late or not is_delivered):
                due_at = self._clock.now() + (0 if is_delivered else ms(5))
                await self._store.release_notices([stored.id for stored in batch], due_at)
                return

    async def _send_notice(self, channel: AlertChannel, opened: NoticeChannel, stored: StoredNotice) -> bool:
        now = self._clock.now()
        self._budgets[channel.name] = (await self._budget(channel, now)).record_sent(now)
        delivery = await opened.send(stored.notice, now)
        now = self._clock.now()
        result, state = _results(stored, delivery, now)
        self.attempts.add(channel.name, _RESULT_WORDS[result.status])
        await self._store.record_sending([result], [state], now)
        log.info(
            "notice_sent" if delivery.is_delivered else "notice_refused",
            notice=stored.notice.id,
            channel=channel.name,
            rule=stored.notice.rule,
            state=stored.notice.state.value,
            tries=stored.tries + 1,
            answer=delivery.answer,
        )
        return delivery.is_delivered

    async def _budget(self, channel: AlertChannel, now: Instant) -> ChannelBudget:
        """The rate of a channel; a new leader begins with what the one before it sent."""
        if channel.name not in self._budgets:
            assert self._factory is not None
            kind = self._factory.kinds[channel.kind]
            window_ms = kind.window_s * 1000
            sent_at = await self._store.sent_instants(channel.name, now - window_ms, kind.max_notices)
            self._budgets[channel.name] = ChannelBudget(kind.max_notices, window_ms, tuple(sent_at))
        return self._budgets[channel.name]


def _results(stored: StoredNotice, delivery: Delivery, now: Instant) -> tuple[SendResult, ChannelResult]:
    if delivery.is_delivered:
        done = SendResult(stored.id, NoticeStatus.DELIVERED, delivery.answer, now)
        return done, ChannelResult(stored.channel, True, delivery.answer)
    due_at = retry_at(stored.tries, made_at(stored.id), now, delivery.retry_after_s, is_permanent=delivery.is_permanent)
    status = NoticeStatus.ABANDONED if due_at is None else NoticeStatus.DUE
    channel = ChannelResult(
        stored.channel,
        False,
        delivery.answer,
        None if delivery.retry_after_s is None else due_at,
        f"the service says that the address no longer exists: {delivery.answer}" if delivery.is_gone else "",
    )
    return SendResult(stored.id, status, delivery.answer, due_at or now), channel
