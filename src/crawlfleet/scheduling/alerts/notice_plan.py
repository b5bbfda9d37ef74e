"""Decides which messages alerts make: few, and each thing once.

Alerts of one rule and one kind of scope are a group. The first message of a group waits for `GROUP_WAIT_MS`, so that
what happens together arrives together; the next one comes `GROUP_INTERVAL_MS` later at the earliest, with only what
changed. So 500 nodes that are lost at once make at most two messages. What was announced is kept in the state of each
alert: after a silence, nothing is announced again that was announced before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from crawlfleet.model.alerts.alert import AlertGroup, AlertRule, AlertState, AlertStatus, Announced, Silence, scope_kind
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import NoticeState, Severity
from crawlfleet.scheduling.alerts.muting import ActiveAlerts, mute_reason

GROUP_WAIT_MS = 8_000
"""Span that the first message of a group waits for more. A receiver has it 15 s after the threshold was crossed for the
span of the rule: the rest is for measuring, the commit and sending."""
GROUP_INTERVAL_MS = 5 * 60_000
REMINDER_MS = 4 * 3_600_000

AlertKey = tuple[str, str]


class MessageItem(NamedTuple):
    """What a message says about one alert."""

    state: NoticeState
    alert: AlertState


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """One message of a group, for the channels of its rule."""

    rule: AlertRule
    scope_kind: str
    state: NoticeState
    items: tuple[MessageItem, ...]
    """Firing alerts first, then by the instant at which they fired."""

    @property
    def reminder(self) -> int:
        """The number of the reminder; 0 for a message that is none."""
        if self.state is not NoticeState.REMINDER:
            return 0
        return max(item.alert.reminders for item in self.items)


class NoticePlan(NamedTuple):
    """The messages to send now, and the states and groups as they are afterwards."""

    messages: Sequence[GroupMessage]
    states: Mapping[AlertKey, AlertState]
    """States that a message changed."""
    groups: Mapping[AlertKey, AlertGroup]
    """Groups that changed; one without `due_at` and older than the interval can be forgotten."""


def plan_notices(
    states: Iterable[AlertState],
    groups: Mapping[AlertKey, AlertGroup],
    rules: Mapping[str, AlertRule],
    silences: Sequence[Silence],
    now: Instant,
    unreceived: Collection[str] = (),
) -> NoticePlan:
    """Decide what to send now. A state whose rule is unknown is passed over.

    What fires under a rule in `unreceived`, which no channel receives, is not announced: it is as soon as there is a
    channel.
    """
    known_states = [state for state in states if state.rule in rules]
    active = ActiveAlerts(known_states, rules)
    members: dict[AlertKey, list[AlertState]] = {}
    for state in known_states:
        if _next_notice(state) is not None or _may_be_reminded(state):
            members.setdefault((state.rule, scope_kind(state.scope)), []).append(state)
    messages: list[GroupMessage] = []
    changed_states: dict[AlertKey, AlertState] = {}
    changed_groups: dict[AlertKey, AlertGroup] = {}
    for key in sorted(members.keys() | groups.keys()):
        group = groups.get(key, AlertGroup(*key))
        rule = rules.get(key[0])
        after, message = group, None
        if rule is not None and rule.name not in unreceived:
            after, message = _plan_group(rule, group, members.get(key, ()), active, silences, now)
        else:
            after = replace(group, due_at=None)
        if after != group:
            changed_groups[key] = after
        if message is not None:
            messages.append(message)
            changed_states.update((item.alert.key, item.alert) for item in message.items)
    return NoticePlan(messages, changed_states, changed_groups)


def is_group_forgettable(group: AlertGroup, now: Instant) -> bool:
    """Return whether nothing is left to remember of a group."""
    return group.due_at is None and (group.sent_at is None or now - group.sent_at >= GROUP_INTERVAL_MS)


def _plan_group(
    rule: AlertRule,
    group: AlertGroup,
    members: Sequence[AlertState],
    active: ActiveAlerts,
    silences: Sequence[Silence],
    now: Instant,
) -> tuple[AlertGroup, GroupMessage | None]:
    heard = [state for state in members if not mute_reason(state, rule, active, silences, now)]
    has_change = any(_next_notice(state) is not None for state in heard)
    has_reminder = any(_is_reminder_due(state, now) for state in heard)
    if not has_change and not has_reminder:
        return replace(group, due_at=None), None
    sent_at = None if group.sent_at is None else min(group.sent_at, now)
    earliest = now if sent_at is None else sent_at + GROUP_INTERVAL_MS
    # A reminder has nothing to wait for: what it is about is hours old.
    due_at = max(now + GROUP_WAIT_MS if has_change else now, earliest)
    if group.due_at is not None:
        due_at = min(group.due_at, due_at)
    if now < due_at:
        return replace(group, due_at=due_at), None
    items = [_announce(state, has_reminder, now) for state in heard]
    message = _make_message(rule, group.scope_kind, [item for item in items if item is not None])
    return replace(group, due_at=None, sent_at=now), message


def _next_notice(state: AlertState) -> NoticeState | None:
    """Return what people have not heard yet of an alert; None when they know how it is."""
    if state.flapping_at is not None:
        return None if state.announced is Announced.FLAPPING else NoticeState.FLAPPING
    if state.status.is_active:
        is_new = state.announced is not Announced.FIRING and state.acknowledged_at is None
        return NoticeState.FIRING if is_new else None
    return None if state.announced is Announced.NOTHING else NoticeState.RECOVERED


def _may_be_reminded(state: AlertState) -> bool:
    return (
        state.status is AlertStatus.FIRING
        and state.announced is Announced.FIRING
        and state.acknowledged_at is None
        and state.flapping_at is None
    )


def _is_reminder_due(state: AlertState, now: Instant) -> bool:
    since_at = now if state.announced_at is None else min(state.announced_at, now)
    return _may_be_reminded(state) and now - since_at >= REMINDER_MS


def _announce(state: AlertState, has_reminder: bool, now: Instant) -> MessageItem | None:
    """Return what the message says of an alert, with its state as it is afterwards."""
    notice = _next_notice(state)
    if notice is None and has_reminder and _may_be_reminded(state):
        reminded = replace(state, announced_at=now, reminders=state.reminders + 1)
        return MessageItem(NoticeState.REMINDER, reminded)
    match notice:
        case NoticeState.FIRING:
            announced = Announced.FIRING
        case NoticeState.FLAPPING:
            announced = Announced.FLAPPING
        case NoticeState.RECOVERED:
            announced = Announced.NOTHING
        case _:
            return None
    return MessageItem(notice, replace(state, announced=announced, announced_at=now))


_ORDER = (NoticeState.FIRING, NoticeState.FLAPPING, NoticeState.RECOVERED, NoticeState.REMINDER)


def _make_message(rule: AlertRule, kind: str, items: Sequence[MessageItem]) -> GroupMessage:
    ordered = sorted(items, key=lambda item: (_ORDER.index(item.state), item.alert.fired_at or 0, item.alert.scope))
    return GroupMessage(rule, kind, ordered[0].state, tuple(ordered))


def message_severity(message: GroupMessage) -> Severity:
    """Return how urgent a message is: a recovery is for information only."""
    return Severity.INFO if message.state is NoticeState.RECOVERED else message.rule.severity
