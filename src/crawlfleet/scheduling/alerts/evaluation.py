"""One pass over all alerts: measurements in, changed states and messages out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlfleet.model.alerts.alert import AlertGroup, AlertRule, AlertSample, AlertState, AlertStatus, Silence
from crawlfleet.model.instants import Instant
from crawlfleet.scheduling.alerts.alert_states import (
    adopt_alert_state,
    drop_alert_state,
    is_forgettable,
    is_worth_writing,
    next_alert_state,
)
from crawlfleet.scheduling.alerts.notice_plan import AlertKey, GroupMessage, is_group_forgettable, plan_notices
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

MAX_CHANGES = 2_000
"""Limit on the states that one pass changes by measurements; what is left is judged by the next pass."""


class Measurements(NamedTuple):
    """What a rule measured in one pass."""

    samples: Mapping[str, AlertSample]
    """Samples by scope."""
    is_complete: bool = True
    """Whether a scope without a sample no longer exists."""
    gone: frozenset[str] = frozenset()
    """Scopes that no longer exist, where the samples are not complete."""

    def is_gone(self, scope: str) -> bool:
        return scope in self.gone or (self.is_complete and scope not in self.samples)


@dataclass(frozen=True, slots=True)
class AlertPass:
    """The result of a pass: what to write in one transaction."""

    messages: Sequence[GroupMessage] = ()
    states: Mapping[AlertKey, AlertState] = field(default_factory=dict)
    """States to write."""
    forgotten: Sequence[AlertKey] = ()
    """Keys of stored states to delete."""
    groups: Mapping[AlertKey, AlertGroup] = field(default_factory=dict)
    """Groups to write."""
    forgotten_groups: Sequence[AlertKey] = ()
    is_cut: bool = False
    """Whether more changed than one pass may write."""

    @property
    def is_empty(self) -> bool:
        return not (self.states or self.forgotten or self.groups or self.forgotten_groups)


def evaluate_alerts(
    rules: Mapping[str, AlertRule],
    measured: Mapping[str, Measurements],
    states: Mapping[AlertKey, AlertState],
    groups: Mapping[AlertKey, AlertGroup],
    silences: Sequence[Silence],
    term: int,
    now: Instant,
    *,
    unreceived: Collection[str] = (),
) -> AlertPass:
    """Judge every alert. A rule that was not measured in this pass keeps its states; one in `unreceived` has no
    channel."""
    judged = {key: adopt_alert_state(state, term, now) for key, state in states.items()}
    for key, state in judged.items():
        rule = rules.get(state.rule)
        if rule is None:
            continue
        if not rule.is_enabled:
            judged[key] = drop_alert_state(state, "the rule was turned off", now)
        elif (measurements := measured.get(state.rule)) and measurements.is_gone(state.scope):
            judged[key] = drop_alert_state(state, "it no longer exists, or the rule no longer covers it", now)
    changes = sum(is_worth_writing(states[key], state) for key, state in judged.items())
    is_cut = False
    for name, measurements in measured.items():
        rule = rules.get(name)
        if rule is None or not rule.is_enabled:
            continue
        kind = RULE_KINDS[rule.kind]
        for scope, sample in measurements.samples.items():
            before = judged.get((name, scope))
            if before is None:
                # Nearly all scopes of a large installation: nothing is wrong and nothing is remembered.
                if sample.value is None or not kind.is_crossed(rule, sample.value):
                    continue
                before = AlertState(name, scope, term=term)
            after = next_alert_state(rule, sample, before, now)
            if after is before or after == before:
                continue
            changes += is_worth_writing(before, after)
            if is_cut := changes > MAX_CHANGES:
                break
            judged[name, scope] = after
        if is_cut:
            break
    plan = plan_notices(judged.values(), groups, rules, silences, now, unreceived)
    judged.update(plan.states)
    forgotten = [key for key, state in judged.items() if state.rule not in rules or is_forgettable(state, now)]
    changed = {key: state for key, state in judged.items() if key not in states or is_worth_writing(states[key], state)}
    for key in forgotten:
        changed.pop(key, None)
    all_groups = {**groups, **plan.groups}
    forgotten_groups = [key for key, group in all_groups.items() if is_group_forgettable(group, now)]
    return AlertPass(
        messages=plan.messages,
        states=changed,
        forgotten=[key for key in forgotten if key in states],
        groups={key: group for key, group in plan.groups.items() if key not in set(forgotten_groups)},
        forgotten_groups=[key for key in forgotten_groups if key in groups],
        is_cut=is_cut,
    )


def apply_pass(
    states: Mapping[AlertKey, AlertState], groups: Mapping[AlertKey, AlertGroup], outcome: AlertPass
) -> tuple[dict[AlertKey, AlertState], dict[AlertKey, AlertGroup]]:
    """Return states and groups as they are after the pass is written."""
    after = {key: state for key, state in {**states, **outcome.states}.items() if key not in set(outcome.forgotten)}
    gone = set(outcome.forgotten_groups)
    return after, {key: group for key, group in {**groups, **outcome.groups}.items() if key not in gone}


def next_alert_deadline(
    rules: Mapping[str, AlertRule], states: Iterable[AlertState], groups: Iterable[AlertGroup]
) -> Instant | None:
    """Return the earliest instant at which something changes by the passing of time alone."""
    deadlines = [group.due_at for group in groups if group.due_at is not None]
    for state in states:
        rule = rules.get(state.rule)
        if rule is None:
            continue
        if state.status is AlertStatus.PENDING:
            deadlines.append(state.since_at + rule.for_s * 1000)
        elif state.status is AlertStatus.RECOVERING:
            deadlines.append(state.since_at + rule.keep_s * 1000)
    return min(deadlines, default=None)
