"""Previews a rule over the stored history: when it would have fired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from crawlfleet.control.admin.figures import Figures
from crawlfleet.control.alerts.alert_rules import AlertRules
from crawlfleet.control.alerts.samplers.figures import figure_sample
from crawlfleet.errors import InvalidInput
from crawlfleet.model.alerts.alert import INSTALLATION_SCOPE, AlertRule, AlertSample
from crawlfleet.model.figures.task_figures import MINUTE_S, sum_rows
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.alerts.alert_states import PreviewedAlert, preview_rule
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

_MINUTE_MS = MINUTE_S * 1000
PREVIEW_MINUTES = 360
"""Minutes that the history keeps."""


class RulePreview(NamedTuple):
    """When a rule would have fired for a scope."""

    scope: str
    since: Instant
    until: Instant
    alerts: Sequence[PreviewedAlert]
    points: int
    """Number of minutes in which something was measured."""


class RulePreviews:
    def __init__(self, *, rules: AlertRules, figures: Figures, clock: Clock) -> None:
        self._rules = rules
        self._figures = figures
        self._clock = clock

    async def preview_rule(self, name: str, values: Mapping[str, object], scope: str | None) -> RulePreview:
        """Return when the rule would have fired in the last six hours, with these values over the stored ones.

        Raises InvalidInput for a rule whose values no history has, and for a scope that names more than one series.
        """
        rule = await self._rules.draft_rule(name, values)
        kind = RULE_KINDS[rule.kind]
        if not kind.has_history:
            able = ", ".join(each.name for each in RULE_KINDS.values() if each.has_history)
            raise InvalidInput(f"the history has no values of {rule.kind}; it has those of {able}", field="name")
        series = scope or rule.scope
        if series != INSTALLATION_SCOPE and ":" not in series:
            raise InvalidInput(f"name one, such as {series}:NAME", field="scope")
        until = self._clock.now()
        since = until - PREVIEW_MINUTES * _MINUTE_MS
        history = await self._figures.load_history([series], "minute", since)
        figures = {point.starts_at: point.figures for point in history.series[series]}
        window = max(1, kind.window_s // MINUTE_S)
        points = _windows(rule, series, figures, window, history.since, until)
        return RulePreview(series, history.since, until, preview_rule(rule, points), len(figures))


def _windows(
    rule: AlertRule, scope: str, figures: Mapping[Instant, Sequence[int]], window: int, since: Instant, until: Instant
) -> Iterator[tuple[Instant, AlertSample]]:
    """Yield the sample at the end of each minute, over as many minutes as the rule looks back."""
    for minute in range(since, until, _MINUTE_MS):
        rows = [figures.get(minute - back * _MINUTE_MS, ()) for back in range(window)]
        yield minute + _MINUTE_MS, figure_sample(rule.kind, scope, sum_rows(rows))
