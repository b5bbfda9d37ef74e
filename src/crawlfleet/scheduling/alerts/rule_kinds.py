"""The kinds of alert rules: what each measures, in which direction it is bad, and its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from crawlfleet.model.alerts.alert import INSTALLATION_SCOPE, AlertRule, scope_kind
from crawlfleet.model.notice import Severity

CLEAR_PART = 0.8
"""The part of a threshold below which a rule recovers, unless it says otherwise."""


class Unit(StrEnum):
    """The unit of a rule's values."""

    RATIO = "ratio"
    SECONDS = "seconds"
    COUNT = "count"
    DAYS = "days"
    STATE = "state"
    """1 while the condition holds, 0 otherwise: threshold and clear value are fixed."""


@dataclass(frozen=True, slots=True)
class RuleKind:
    """What a rule measures."""

    name: str
    about: str
    """When it fires, as a sentence for people."""
    unit: Unit
    scopes: tuple[str, ...]
    """Kinds of scopes that it can be applied to; the first one is the default."""
    threshold: float = 1.0
    clear: float | None = None
    """Default clear value; None for `CLEAR_PART` of the threshold."""
    is_low_bad: bool = False
    """Whether it fires below the threshold instead of at or above it."""
    for_s: int = 0
    keep_s: int = 30
    severity: Severity = Severity.WARNING
    least_samples: int = 0
    window_s: int = 0
    """Span that the value is computed over; 0 for a value of the present."""
    has_history: bool = False
    """Whether the stored history has its values, so that it can be previewed."""

    @property
    def is_state(self) -> bool:
        return self.unit is Unit.STATE

    def default_clear(self, threshold: float) -> float:
        """Return the clear value for a threshold when a person sets none."""
        if self.is_state:
            return 1.0
        return threshold * (CLEAR_PART if self.clear is None else self.clear / self.threshold)

    def default_rule(self) -> AlertRule:
        return AlertRule(
            name=self.name,
            kind=self.name,
            scope=self.scopes[0],
            threshold=self.threshold,
            clear=self.default_clear(self.threshold),
            for_s=self.for_s,
            keep_s=self.keep_s,
            severity=self.severity,
            least_samples=self.least_samples,
        )

    def is_crossed(self, rule: AlertRule, value: float) -> bool:
        """Return whether a value is bad enough to fire."""
        return value < rule.threshold if self.is_low_bad else value >= rule.threshold

    def is_clear(self, rule: AlertRule, value: float) -> bool:
        """Return whether a value is good enough to recover."""
        return value >= rule.clear if self.is_low_bad else value < rule.clear


_FIGURE_SCOPES = (INSTALLATION_SCOPE, "type", "project", "queue", "cluster", "node")
_KINDS = (
    RuleKind(
        "failure_rate",
        "The share of executions that failed or timed out within 5 minutes reaches the threshold.",
        Unit.RATIO,
        _FIGURE_SCOPES,
        threshold=0.1,
        for_s=60,
        least_samples=20,
        window_s=300,
        has_history=True,
    ),
    RuleKind(
        "queue_size",
        "At least this many tasks wait.",
        Unit.COUNT,
        (INSTALLATION_SCOPE, "queue", "project"),
        threshold=1_000,
        for_s=60,
    ),
    RuleKind(
        "oldest_wait",
        "The task that has been ready the longest has waited for this long.",
        Unit.SECONDS,
        (INSTALLATION_SCOPE,),
        threshold=1_800,
    ),
    RuleKind(
        "avg_duration",
        "Executions that ended within 15 minutes ran for this long on average.",
        Unit.SECONDS,
        _FIGURE_SCOPES,
        threshold=300,
        for_s=60,
        least_samples=20,
        window_s=900,
        has_history=True,
    ),
    RuleKind(
        "p95_duration",
        "One in twenty of the executions that ended within 15 minutes ran for this long.",
        Unit.SECONDS,
        _FIGURE_SCOPES,
        threshold=900,
        for_s=60,
        least_samples=20,
        window_s=900,
        has_history=True,
    ),
    RuleKind(
        "node_down",
        "A node stopped answering, and it was not drained.",
        Unit.STATE,
        ("node",),
        for_s=30,
        keep_s=10,
    ),
    RuleKind(
        "cluster_down",
        "A cluster has nodes, and none of them answers.",
        Unit.STATE,
        ("cluster",),
        for_s=30,
        keep_s=10,
        severity=Severity.CRITICAL,
    ),
    RuleKind(
        "host_blocked",
        "A host blocked this share of the requests within 10 minutes, or its back-off reached level 5.",
        Unit.RATIO,
        ("host",),
        threshold=0.5,
        keep_s=300,
        least_samples=20,
        window_s=600,
    ),
    RuleKind(
        "dead_letters",
        "This many tasks became dead letters within 15 minutes; the notice names their causes.",
        Unit.COUNT,
        (INSTALLATION_SCOPE,),
        threshold=50,
        window_s=900,
    ),
    RuleKind(
        "schedule_missed",
        "A schedule left out or refused a tick within an hour, or a tick is a minute late.",
        Unit.STATE,
        ("schedule",),
        window_s=3_600,
    ),
    RuleKind(
        "no_results",
        "The last run of a schedule gave less than this part of the median of the seven runs before it.",
        Unit.RATIO,
        ("schedule",),
        threshold=0.2,
        clear=0.2,
        is_low_bad=True,
        keep_s=0,
        least_samples=3,
    ),
    RuleKind(
        "disk_low",
        "Less than this part of a disk, or less than 5 GiB of a master's disk, is free.",
        Unit.RATIO,
        ("disk",),
        threshold=0.10,
        clear=0.15,
        is_low_bad=True,
        for_s=60,
        severity=Severity.CRITICAL,
    ),
    RuleKind(
        "store_slow",
        "Commits of the leader took this long at the 99th percentile for 2 minutes.",
        Unit.SECONDS,
        (INSTALLATION_SCOPE,),
        threshold=0.5,
        for_s=120,
        least_samples=10,
        window_s=60,
    ),
    RuleKind(
        "broker_away",
        "The broker does not answer; hints are lost and everything takes longer.",
        Unit.STATE,
        (INSTALLATION_SCOPE,),
        for_s=60,
    ),
    RuleKind(
        "no_leader",
        "No master leads: nothing is placed. Any master judges this.",
        Unit.STATE,
        (INSTALLATION_SCOPE,),
        for_s=15,
        keep_s=0,
        severity=Severity.CRITICAL,
    ),
    RuleKind(
        "tasks_stuck",
        "This many tasks are ready and no node can take them.",
        Unit.COUNT,
        (INSTALLATION_SCOPE,),
        threshold=1,
        clear=1,
        for_s=600,
    ),
    RuleKind(
        "quota_spent",
        "A project used this part of a daily quota.",
        Unit.RATIO,
        ("project",),
        threshold=1.0,
    ),
    RuleKind(
        "certificate",
        "The certificate of a master is valid for less than this many days.",
        Unit.DAYS,
        ("master",),
        threshold=21,
        clear=21,
        is_low_bad=True,
        keep_s=0,
    ),
    RuleKind(
        "channel_failing",
        "A channel delivered nothing in its last three attempts, or was disabled by its service.",
        Unit.STATE,
        ("channel",),
        keep_s=0,
    ),
    RuleKind(
        "version_mixed",
        "Masters of different versions run beside each other.",
        Unit.STATE,
        (INSTALLATION_SCOPE,),
        for_s=3_600,
    ),
)
RULE_KINDS: Mapping[str, RuleKind] = {kind.name: kind for kind in _KINDS}
"""All kinds, by name, in the order in which they are shown."""


def default_rules(thresholds: Mapping[str, float] | None = None) -> dict[str, AlertRule]:
    """Return the built-in rules, with the thresholds that the settings of the master give."""
    rules = {}
    for kind in _KINDS:
        rule = kind.default_rule()
        threshold = (thresholds or {}).get(kind.name)
        if threshold is not None:
            rule = replace(rule, threshold=threshold, clear=kind.default_clear(threshold))
        rules[kind.name] = rule
    return rules


def scope_applies(rule_scope: str, scope: str) -> bool:
    """Return whether a rule for `rule_scope` judges this scope."""
    return scope == rule_scope or (rule_scope != INSTALLATION_SCOPE and scope_kind(scope) == rule_scope)
