"""Evaluates the alert rules: measures, judges, and writes what changed with the notices that it makes."""

from __future__ import annotations

from crawlfleet.control.alerts.alert_rules import AlertRules
from crawlfleet.control.alerts.alert_sampling import AlertSampling
from crawlfleet.control.alerts.notice_maker import NoticeMaker, unreceived_rules
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.model.alerts.alert import AlertStatus
from crawlfleet.model.instants import Instant
from crawlfleet.ports.alert_store import KEEP_NOTICES_MS, AlertChanges
from crawlfleet.ports.broker import NOTICES, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.alerts.evaluation import apply_pass, evaluate_alerts, next_alert_deadline

CLEAN_S = 600.0
"""Span between two removals of old notices."""
CLEAN_ROWS = 1_000


class AlertEvaluator(LeaderLoop):
    name = "alert_evaluator"
    pause_s = 2.0

    def __init__(
        self,
        *,
        store: Store,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        rules: AlertRules,
        sampling: AlertSampling,
        maker: NoticeMaker,
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._rules = rules
        self._sampling = sampling
        self._maker = maker
        self.next_at: Instant | None = None
        """Instant at which something is due by the passing of time."""
        self._cleaned_at: float | None = None

    async def wait(self, pause_s: float) -> None:
        """Wait until something is due by the passing of time, and never longer than the usual pause."""
        if pause_s > 0 and self.next_at is not None:
            pause_s = min(pause_s, max(0.05, (self.next_at - self._clock.now()) / 1000))
        await super().wait(pause_s)

    async def run_term(self, term: int, now: Instant) -> bool:
        """Run one pass; True if more changed than one pass writes."""
        book = await self._store.load_alerts(now)
        rules = await self._rules.rules_in_force(book)
        measured = await self._sampling.measure(rules, book, now)
        # Measuring takes time: what is judged now is judged by the clock of now.
        now = self._clock.now()
        unreceived = unreceived_rules(rules.values(), book.channels)
        outcome = evaluate_alerts(
            rules, measured, book.states, book.groups, book.silences, term, now, unreceived=unreceived
        )
        if not outcome.is_empty:
            notices = self._maker.make_notices(outcome.messages, book.channels, now)
            changes = AlertChanges(
                list(outcome.states.values()),
                outcome.forgotten,
                list(outcome.groups.values()),
                outcome.forgotten_groups,
                notices,
            )
            await self._store.record_alerts(changes, now, term)
            if notices:
                await self._broker.signals.send_signals([NOTICES])
            if outcome.messages:
                log.info(
                    "alerts_announced",
                    rules=sorted({message.rule.name for message in outcome.messages}),
                    alerts=sum(len(message.items) for message in outcome.messages),
                    notices=len(notices),
                )
        states, groups = apply_pass(book.states, book.groups, outcome)
        self.next_at = next_alert_deadline(
            rules, [state for state in states.values() if state.status is not AlertStatus.OK], groups.values()
        )
        await self._drop_old(term, now)
        return outcome.is_cut

    async def _drop_old(self, term: int, now: Instant) -> None:
        now_mono = self._clock.monotonic()
        if self._cleaned_at is None or now_mono - self._cleaned_at >= CLEAN_S:
            dropped = await self._store.drop_old_notices(term, now - KEEP_NOTICES_MS, CLEAN_ROWS)
            self._cleaned_at = None if dropped >= CLEAN_ROWS else now_mono
