"""The state machine of an alert.

    ok ──crossed──► pending ──for_s──► firing ──clear──► recovering ──keep_s──► ok
                       └─not crossed─► ok    ◄──not clear──┘

Between the clear value and the threshold nothing changes sides: what fires goes on firing, what is ok stays ok. A value
with too few observations changes nothing at all. Instants of the future, left by a clock that was set back, count as
now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from crawlfleet.model.alerts.alert import AlertRule, AlertSample, AlertState, AlertStatus, Announced
from crawlfleet.model.instants import Instant
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

FLAP_WINDOW_MS = 30 * 60_000
FLAP_CHANGES = 4
"""Number of changes within the window that an alert may have before it counts as flapping."""
FLAP_QUIET_MS = 10 * 60_000
"""Span without a change after which an alert no longer counts as flapping."""
VALUE_MS = 30_000
"""Span after which a changed value of an active alert is written again."""


def next_alert_state(rule: AlertRule, sample: AlertSample, state: AlertState, now: Instant) -> AlertState:
    """Return the state of an alert after a measurement."""
    if state.mute != sample.mute or (sample.parent and sample.parent != state.parent):
        state = replace(state, mute=sample.mute, parent=sample.parent or state.parent)
    state = _settle_flapping(state, now)
    if sample.value is None or sample.count < rule.least_samples:
        return state
    kind = RULE_KINDS[rule.kind]
    since_at = min(state.since_at, now)
    is_clear = kind.is_clear(rule, sample.value)
    match state.status:
        case AlertStatus.OK if kind.is_crossed(rule, sample.value):
            state = _enter(state, AlertStatus.PENDING, now)
            if rule.for_s == 0:
                state = _fire(state, now)
        case AlertStatus.PENDING if not kind.is_crossed(rule, sample.value):
            state = _enter(state, AlertStatus.OK, now)
        case AlertStatus.PENDING if now - since_at >= rule.for_s * 1000:
            state = _fire(state, now)
        case AlertStatus.FIRING if is_clear:
            state = _enter(state, AlertStatus.RECOVERING, now)
            if rule.keep_s == 0:
                state = _recover(state, now)
        case AlertStatus.RECOVERING if not is_clear:
            state = _enter(state, AlertStatus.FIRING, now)
        case AlertStatus.RECOVERING if now - since_at >= rule.keep_s * 1000:
            state = _recover(state, now)
        case _:
            pass
    return _with_value(state, sample, now)


def drop_alert_state(state: AlertState, why: str, now: Instant) -> AlertState:
    """Return the state of an alert whose scope or rule no longer exists: it recovers at once."""
    state = _settle_flapping(state, now)
    if state.status is AlertStatus.OK:
        return state
    if not state.status.is_active:
        return _enter(state, AlertStatus.OK, now)
    return replace(_recover(state, now), why=why, mute="")


def adopt_alert_state(state: AlertState, term: int, now: Instant) -> AlertState:
    """Return a state as a new leader takes it over: what fires goes on, what was under observation begins again.

    Between the two leaders there was no measurement: a pending alert may have been fine for a while.
    """
    if state.term == term:
        return state
    is_observed = state.status in (AlertStatus.PENDING, AlertStatus.RECOVERING)
    return replace(state, term=term, since_at=now if is_observed else state.since_at)


def is_forgettable(state: AlertState, now: Instant) -> bool:
    """Return whether nothing is left to remember of an alert: it is as if it had never been."""
    return (
        state.status is AlertStatus.OK
        and state.announced is Announced.NOTHING
        and state.flapping_at is None
        and not _recent_changes(state.changes, now)
    )


def is_worth_writing(before: AlertState, after: AlertState) -> bool:
    """Return whether a state changed in more than its latest value."""
    if after.status is AlertStatus.OK and before.status is AlertStatus.OK:
        after = replace(after, value=before.value, why=before.why, measured_at=before.measured_at)
    return after is not before and after != before


class PreviewedAlert(NamedTuple):
    """A time in which a rule would have fired."""

    fired_at: Instant
    recovered_at: Instant | None
    """None when it still fires at the end."""
    peak: float
    """The worst value on the way."""


def preview_rule(rule: AlertRule, points: Iterable[tuple[Instant, AlertSample]]) -> list[PreviewedAlert]:
    """Return when a rule would have fired over stored measurements of one scope, given in the order of time."""
    kind, alerts = RULE_KINDS[rule.kind], list[PreviewedAlert]()
    state = AlertState(rule.name, rule.scope)
    worst = min if kind.is_low_bad else max
    peak = 0.0
    for instant, sample in points:
        after = next_alert_state(rule, sample, state, instant)
        if after.status.is_active and sample.value is not None:
            peak = worst(peak, sample.value) if state.status.is_active else sample.value
        if state.status.is_active and not after.status.is_active:
            alerts.append(PreviewedAlert(state.fired_at or instant, instant, peak))
        state = after
    if state.status.is_active and state.fired_at is not None:
        alerts.append(PreviewedAlert(state.fired_at, None, peak))
    return alerts


def _enter(state: AlertState, status: AlertStatus, now: Instant) -> AlertState:
    return replace(state, status=status, since_at=now)


def _fire(state: AlertState, now: Instant) -> AlertState:
    state = _enter(state, AlertStatus.FIRING, now)
    return _note_change(replace(state, fired_at=now, reminders=0), now)


def _recover(state: AlertState, now: Instant) -> AlertState:
    state = _enter(state, AlertStatus.OK, now)
    state = replace(state, acknowledged_at=None, acknowledged_by="", acknowledged_why="")
    return _note_change(state, now)


def _note_change(state: AlertState, now: Instant) -> AlertState:
    changes = (*_recent_changes(state.changes, now), now)
    is_flapping = state.flapping_at is not None or len(changes) > FLAP_CHANGES
    flapping_at = (state.flapping_at if state.flapping_at is not None else now) if is_flapping else None
    # More than these are not needed to judge it, and a row stays small.
    return replace(state, changes=changes[-FLAP_CHANGES - 1 :], flapping_at=flapping_at)


def _settle_flapping(state: AlertState, now: Instant) -> AlertState:
    if state.flapping_at is None:
        return state
    if max((*(min(change, now) for change in state.changes), 0)) > now - FLAP_QUIET_MS:
        return state
    return replace(state, flapping_at=None, changes=())


def _recent_changes(changes: Sequence[Instant], now: Instant) -> tuple[Instant, ...]:
    return tuple(change for change in changes if now - FLAP_WINDOW_MS < min(change, now))


def _with_value(state: AlertState, sample: AlertSample, now: Instant) -> AlertState:
    is_new = state.since_at == now or not 0 <= now - state.measured_at < VALUE_MS
    if not is_new or (state.status is AlertStatus.OK and state.since_at != now):
        return state
    return replace(state, value=sample.value, why=sample.why or state.why, measured_at=now)
