"""Muting: why no notice of an alert is sent at present. An alert is judged all the same, and shown with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from crawlfleet.model.alerts.alert import AlertHours, AlertRule, AlertState, Silence
from crawlfleet.model.instants import Instant
from crawlfleet.scheduling.schedules.cron import find_time_zone

MUTES_ALL = ("no_leader",)
"""Kinds that mute every other alert while they fire: nothing that is measured then can be trusted."""
MUTED_BY_PARENT = {"node_down": "cluster_down"}
"""Kinds of which an alert is muted while the other kind fires for the scope that it belongs to."""
MATCHER_FIELDS = ("rule", "scope", "severity", "parent")


class ActiveAlerts:
    """The alerts that fire now, looked up by kind and scope."""

    def __init__(self, states: Iterable[AlertState], rules: Mapping[str, AlertRule]) -> None:
        self._scopes: dict[str, set[str]] = {}
        for state in states:
            if state.status.is_active and (rule := rules.get(state.rule)) is not None:
                self._scopes.setdefault(rule.kind, set()).add(state.scope)

    def find_inhibitor(self, kind: str, parent: str) -> str:
        """Return the kind whose alert mutes one of this kind; empty when none does."""
        if (muting := MUTED_BY_PARENT.get(kind)) and parent in self._scopes.get(muting, ()):
            return muting
        return next((muting for muting in MUTES_ALL if muting != kind and muting in self._scopes), "")


def mute_reason(
    state: AlertState, rule: AlertRule, active: ActiveAlerts, silences: Sequence[Silence], now: Instant
) -> str:
    """Return why no notice of the alert is sent now; empty when it may be sent.

    An acknowledgement is no such reason: it mutes the alert until it recovers, and the recovery is sent.
    """
    if state.mute:
        return state.mute
    if inhibitor := active.find_inhibitor(rule.kind, state.parent):
        return f"{inhibitor} fires"
    for silence in silences:
        if silence.is_in_force(now) and matches_silence(silence, state, rule):
            return f"silenced by {silence.created_by}: {silence.why}"
    if rule.hours is not None and not is_within_hours(rule.hours, now):
        return "outside the hours of the rule"
    return ""


def matches_silence(silence: Silence, state: AlertState, rule: AlertRule) -> bool:
    fields = {"rule": state.rule, "scope": state.scope, "severity": rule.severity.value, "parent": state.parent}
    return all(fnmatchcase(fields[name], pattern) for name, pattern in silence.matchers.items())


def is_within_hours(hours: AlertHours, now: Instant) -> bool:
    local = datetime.fromtimestamp(now / 1000, UTC).astimezone(find_time_zone(hours.time_zone))
    minute = local.hour * 60 + local.minute
    begin, end = hours.begin_minute, hours.end_minute
    if begin == end:
        return local.isoweekday() in hours.days
    if begin < end:
        return begin <= minute < end and local.isoweekday() in hours.days
    if minute >= begin:
        return local.isoweekday() in hours.days
    # After midnight: the hours began on the day before.
    return minute < end and (local.isoweekday() - 2) % 7 + 1 in hours.days
