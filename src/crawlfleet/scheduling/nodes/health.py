"""Judges the health of a node by its measurements and faults: averages, then hysteresis, so that it does not flap.

Each rule compares an average with a limit. Worse needs a limit to be passed for `hold_s` without a break; better needs
everything to be well below (`recover_share` of the limit) for `recover_s`. Between the two nothing changes.

High CPU is a busy crawler's normal state: the rule is off unless set, and looks at about the last minute.

How many executions fail is no rule: tasks and sites fail everywhere. What counts are the node's own faults, as
`node_faults` finds them. A node that is unhealthy by its faults alone is on trial: it gets a task now and then, as
otherwise nothing could show that it works again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from crawlfleet.model.node import Measurement, Node
from crawlfleet.model.status import Health
from crawlfleet.scheduling.nodes.node_faults import NO_FAULTS, NodeFaults

CRASH_RATE, NETWORK_RATE = "crash_rate", "network_rate"
FAULT_RULES = frozenset({CRASH_RATE, NETWORK_RATE})
"""Rules about the ends of a node's executions: without work there are none."""
TRIAL_INTERVAL_S = 10.0
"""Seconds between two tasks for a node on trial."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Configuration. A limit of None switches that rule off. CPU, memory and rates are shares from 0 to 1."""

    cpu_degraded: float | None = None
    cpu_unhealthy: float | None = None
    memory_degraded: float | None = 0.90
    memory_unhealthy: float | None = 0.95
    crash_rate_degraded: float | None = 0.5
    crash_rate_unhealthy: float | None = 0.8
    network_rate_degraded: float | None = 0.5
    network_rate_unhealthy: float | None = 0.8
    start_latency_degraded_s: float | None = 5.0
    start_latency_unhealthy_s: float | None = None
    unreachable_degraded: float | None = 0.25
    unreachable_unhealthy: float | None = 0.5
    """Share of the time in which the node was silent, while others were not."""
    half_life_s: float = 5.0
    cpu_half_life_s: float = 20.0
    """Half-life of the CPU average: twenty seconds weigh the past like the plain average of a minute does."""
    hold_s: float = 10.0
    recover_s: float = 30.0
    recover_share: float = 0.9


class _Rule(NamedTuple):
    name: str
    value: float
    half_life_s: float
    degraded: float | None
    unhealthy: float | None


class _Reason(NamedTuple):
    rule: str
    level: Health
    value: float
    limit: float


@dataclass(frozen=True, slots=True)
class HealthState:
    """What the leader remembers of the health of one node. A new leader begins with `stored_health(node)`."""

    status: Health = Health.UNKNOWN
    details: Mapping[str, Any] = field(default_factory=dict)
    """Reasons why it is not healthy: rule, average and limit. Empty when it is."""
    changed_at: float | None = None
    averages: Mapping[str, float] = field(default_factory=dict)
    measured_at: float | None = None
    worse_since: float | None = None
    worse: Health = Health.UNHEALTHY
    """Mildest level that held all the time since `worse_since`."""
    better_since: float | None = None
    better: Health = Health.HEALTHY
    """Gravest level seen since `better_since`."""


def stored_health(node: Node) -> HealthState:
    return HealthState(status=node.health, details=node.health_details)


def is_on_trial(node: Node) -> bool:
    """Whether only its faults make the node unhealthy, so that a few tasks may show that it works again."""
    return node.health is Health.UNHEALTHY and _are_faults(node.health_details.get("reasons", ()))


def trial_slots(held: int, waited_s: float) -> int:
    """Slots of a node on trial, which got its last task `waited_s` ago: one at a time, and not one after the other."""
    return 1 if held or waited_s >= TRIAL_INTERVAL_S else 0


def next_health(
    state: HealthState,
    measurement: Measurement,
    now_mono: float,
    thresholds: Thresholds,
    faults: NodeFaults = NO_FAULTS,
) -> HealthState:
    """The next state of health; `now_mono` is in monotonic seconds. The caller compares `status` before and after."""
    rules = _rules(measurement, faults, thresholds)
    averages = _averages(state, rules, now_mono)
    passed = _reasons(rules, averages, 1.0)
    near = _reasons(rules, averages, thresholds.recover_share)
    state = replace(state, averages=averages, measured_at=now_mono)
    state = _towards_worse(state, _worst_level(passed), now_mono, thresholds.hold_s)
    state = _towards_better(state, _worst_level(near), now_mono, thresholds.recover_s)
    return replace(state, details=_details(state, rules, thresholds.recover_share))


def _towards_worse(state: HealthState, level: Health, now_mono: float, hold_s: float) -> HealthState:
    if level <= state.status or level is Health.HEALTHY:
        if state.status is Health.UNKNOWN:
            return _change_status(state, Health.HEALTHY, now_mono)
        return replace(state, worse_since=None)
    since = now_mono if state.worse_since is None else state.worse_since
    mildest = level if state.worse_since is None else min(level, state.worse)
    if now_mono - since >= hold_s:
        return _change_status(state, mildest, now_mono)
    return replace(state, worse_since=since, worse=mildest)


def _towards_better(state: HealthState, level: Health, now_mono: float, recover_s: float) -> HealthState:
    if level >= state.status:
        return replace(state, better_since=None)
    since = now_mono if state.better_since is None else state.better_since
    gravest = level if state.better_since is None else max(level, state.better)
    if now_mono - since >= recover_s:
        return _change_status(state, gravest, now_mono)
    return replace(state, better_since=since, better=gravest)


def _change_status(state: HealthState, status: Health, now_mono: float) -> HealthState:
    return replace(state, status=status, changed_at=now_mono, worse_since=None, better_since=None)


def _rules(measurement: Measurement, faults: NodeFaults, thresholds: Thresholds) -> tuple[_Rule, ...]:
    t, half_life_s = thresholds, thresholds.half_life_s
    unreachable = 1.0 if faults.is_silent else 0.0
    latency_s = measurement.start_latency_s
    return (
        _Rule("cpu", measurement.cpu, t.cpu_half_life_s, t.cpu_degraded, t.cpu_unhealthy),
        _Rule("memory", measurement.memory, half_life_s, t.memory_degraded, t.memory_unhealthy),
        _Rule(CRASH_RATE, faults.crash_rate, half_life_s, t.crash_rate_degraded, t.crash_rate_unhealthy),
        _Rule(NETWORK_RATE, faults.network_rate, half_life_s, t.network_rate_degraded, t.network_rate_unhealthy),
        _Rule("start_latency_s", latency_s, half_life_s, t.start_latency_degraded_s, t.start_latency_unhealthy_s),
        _Rule("unreachable", unreachable, half_life_s, t.unreachable_degraded, t.unreachable_unhealthy),
    )


def _averages(state: HealthState, rules: tuple[_Rule, ...], now_mono: float) -> dict[str, float]:
    """Each value weighs by the time since the last one, so that it does not matter how often a node measures."""
    averages = dict(state.averages)
    waited_s = 0.0 if state.measured_at is None else max(0.0, now_mono - state.measured_at)
    for rule in rules:
        # NaN would stay in the average for ever.
        if not math.isfinite(rule.value):
            continue
        before = averages.get(rule.name, rule.value)
        averages[rule.name] = rule.value + (before - rule.value) * 0.5 ** (waited_s / rule.half_life_s)
    return averages


def _reasons(
    rules: tuple[_Rule, ...], averages: Mapping[str, float], share: float, up_to: Health = Health.UNHEALTHY
) -> list[_Reason]:
    """Rules whose average is above that share of a limit, each with its gravest level."""
    reasons: list[_Reason] = []
    for rule in rules:
        value = averages.get(rule.name, 0.0)
        for level, limit in ((Health.UNHEALTHY, rule.unhealthy), (Health.DEGRADED, rule.degraded)):
            if level <= up_to and limit is not None and value > limit * share:
                reasons.append(_Reason(rule.name, level, value, limit))
                break
    return reasons


def _worst_level(reasons: list[_Reason]) -> Health:
    return max((reason.level for reason in reasons), default=Health.HEALTHY)


def _details(state: HealthState, rules: tuple[_Rule, ...], recover_share: float) -> Mapping[str, Any]:
    if state.status <= Health.HEALTHY:
        return {}
    reasons = _reasons(rules, state.averages, 1.0, state.status)
    reasons = reasons or _reasons(rules, state.averages, recover_share, state.status)
    shown = [
        {"rule": reason.rule, "level": reason.level.word, "value": round(reason.value, 4), "limit": reason.limit}
        for reason in reasons
    ]
    reported = shown or state.details.get("reasons", [])
    is_fault = state.status is Health.UNHEALTHY and _are_faults(reported)
    return {"reasons": reported, "is_recovering": state.better_since is not None, "is_on_trial": is_fault}


def _are_faults(reasons: Iterable[Mapping[str, Any]]) -> bool:
    rules = {reason["rule"] for reason in reasons}
    return bool(rules) and rules <= FAULT_RULES
