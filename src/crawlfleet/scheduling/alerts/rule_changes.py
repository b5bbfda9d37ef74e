"""Changes of alert rules by people: the values that a rule may have, and the rule that they make."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.alerts.alert import INSTALLATION_SCOPE, AlertHours, AlertRule, scope_kind
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Severity
from crawlfleet.scheduling.alerts.muting import MATCHER_FIELDS
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS, RuleKind
from crawlfleet.scheduling.schedules.cron import find_time_zone

SPAN_S_MAX = 30 * 86_400
SAMPLES_MAX = 1_000_000
VALUE_MAX = 1e15
SILENCE_MS_MAX = 366 * 86_400_000
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,99}")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")
_MINUTES_OF_DAY = 24 * 60


def make_rule(name: str, values: Mapping[str, Any], defaults: Mapping[str, AlertRule]) -> AlertRule:
    """Return the rule that a person's values make over the defaults of its kind.

    Raises InvalidInput, with the field named, for values that no rule can have.
    """
    check_name(name)
    kind = _find_kind(name, values.get("kind"))
    rule = replace(defaults[kind.name], name=name)
    threshold = _number(values, "threshold", rule.threshold, VALUE_MAX)
    clear = rule.clear if threshold == rule.threshold else kind.default_clear(threshold)
    rule = replace(
        rule,
        scope=_scope(kind, values.get("scope", rule.scope)),
        threshold=threshold,
        clear=_number(values, "clear", clear, VALUE_MAX),
        for_s=int(_number(values, "for_s", rule.for_s, SPAN_S_MAX)),
        keep_s=int(_number(values, "keep_s", rule.keep_s, SPAN_S_MAX)),
        least_samples=int(_number(values, "least_samples", rule.least_samples, SAMPLES_MAX)),
        severity=_severity(values.get("severity", rule.severity)),
        channels=_names(values.get("channels", rule.channels)),
        hours=read_hours(values["hours"]) if values.get("hours") is not None else None,
        is_enabled=bool(values.get("is_enabled", rule.is_enabled)),
    )
    _check_values(rule, kind)
    return rule


def read_hours(values: Mapping[str, Any]) -> AlertHours:
    """Return the hours of `{"from": "08:00", "until": "20:00", "days": [1, 5], "time_zone": "Asia/Shanghai"}`."""
    if unknown := values.keys() - {"from", "until", "days", "time_zone"}:
        raise InvalidInput(f"unknown: {', '.join(sorted(unknown))}", field="hours")
    zone = str(values.get("time_zone", "UTC"))
    try:
        find_time_zone(zone)
    except InvalidInput as exc:
        raise InvalidInput(exc.detail, field="hours.time_zone") from exc
    days = values.get("days", (1, 2, 3, 4, 5, 6, 7))
    if not isinstance(days, Sequence) or not days or not all(type(day) is int and 1 <= day <= 7 for day in days):
        raise InvalidInput("a list of days from 1 (Monday) to 7 (Sunday)", field="hours.days")
    begin, end = (_minute(values.get(name), name) for name in ("from", "until"))
    return AlertHours(begin % _MINUTES_OF_DAY, end % _MINUTES_OF_DAY, tuple(sorted(set(days))), zone)


def check_matchers(matchers: Mapping[str, str]) -> None:
    """Check the matchers of a silence. Raises InvalidInput."""
    if not matchers:
        raise InvalidInput("at least one matcher, such as rule=node_down", field="matchers")
    for name, pattern in matchers.items():
        if name not in MATCHER_FIELDS:
            raise InvalidInput(f"{name!r} is none of {', '.join(MATCHER_FIELDS)}", field="matchers")
        if not pattern or len(pattern) > limits.NAME_CHARS or not pattern.isprintable():
            detail = f"a pattern has 1 to {limits.NAME_CHARS} printable characters, such as node:*"
            raise InvalidInput(detail, field=f"matchers.{name}")


def check_silence_span(starts_at: Instant, until_at: Instant, now: Instant) -> None:
    """Check the time of a silence. Raises InvalidInput."""
    if until_at <= max(starts_at, now):
        raise InvalidInput("the end is not in the future, or not after the start", field="until_at")
    if until_at - starts_at > SILENCE_MS_MAX:
        raise InvalidInput("a silence lasts 366 days at most", field="until_at")


def check_name(name: str) -> None:
    """Check the name of a rule or a channel. Raises InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput("1 to 100 of a-z, 0-9, _ and -, beginning with a letter", field="name")


def _find_kind(name: str, kind: Any) -> RuleKind:
    if name in RULE_KINDS and kind not in (None, name):
        raise InvalidInput(f"the kind of the built-in rule {name} cannot be changed", field="kind")
    rule_kind = RULE_KINDS.get(str(kind or name))
    if rule_kind is None:
        raise InvalidInput(f"a rule of your own needs a kind, one of {', '.join(RULE_KINDS)}", field="kind")
    return rule_kind


def _scope(kind: RuleKind, scope: Any) -> str:
    allowed = ", ".join(name if name == INSTALLATION_SCOPE else f"{name}, {name}:NAME" for name in kind.scopes)
    if (
        not isinstance(scope, str)
        or scope_kind(scope) not in kind.scopes
        or (":" in scope and (scope_kind(scope) == INSTALLATION_SCOPE or not scope.partition(":")[2]))
        or len(scope) > limits.HOST_CHARS
        or not scope.isprintable()
    ):
        raise InvalidInput(f"a rule of the kind {kind.name} has a scope of {allowed}", field="scope")
    return scope


def _number(values: Mapping[str, Any], name: str, default: float, largest: float) -> float:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInput("a number", field=name)
    if not 0 <= value <= largest:
        raise InvalidInput(f"from 0 to {largest:g}", field=name)
    return value


def _severity(value: Any) -> Severity:
    try:
        return Severity(value)
    except ValueError as exc:
        raise InvalidInput(f"one of {', '.join(Severity)}", field="severity") from exc


def _names(values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > limits.LABELS:
        raise InvalidInput(f"a list of at most {limits.LABELS} names of channels", field="channels")
    return tuple(dict.fromkeys(map(str, values)))


def _minute(value: Any, name: str) -> int:
    if not isinstance(value, str) or not _CLOCK.fullmatch(value):
        raise InvalidInput("a time of the day such as 08:30", field=f"hours.{name}")
    hour, minute = value.split(":")
    return int(hour) * 60 + int(minute)


def _check_values(rule: AlertRule, kind: RuleKind) -> None:
    if kind.is_state:
        if (rule.threshold, rule.clear) != (1.0, 1.0):
            raise InvalidInput(f"{kind.name} is true or false: it has no threshold to set", field="threshold")
        return
    if rule.threshold <= 0:
        raise InvalidInput("a threshold above 0: a rule with 0 would always fire", field="threshold")
    if kind.is_low_bad and rule.clear < rule.threshold:
        detail = f"{rule.clear:g} is below the threshold {rule.threshold:g}: {kind.name} fires below it"
        raise InvalidInput(detail, field="clear")
    if not kind.is_low_bad and rule.clear > rule.threshold:
        raise InvalidInput(f"{rule.clear:g} is above the threshold {rule.threshold:g}", field="clear")
    if not kind.is_low_bad and rule.clear <= 0:
        raise InvalidInput("a clear value above 0: no value would be below it", field="clear")
