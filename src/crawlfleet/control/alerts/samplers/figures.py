"""Measures the figures of executions: how many failed, and how long they ran."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.control.admin.figures import Figures
from crawlfleet.control.alerts.alert_sampling import SampleRequest
from crawlfleet.model.alerts.alert import AlertSample, scope_kind
from crawlfleet.model.figures.task_figures import (
    ALL,
    FAILED,
    TIMEOUT,
    average_run_ms,
    count_runs,
    full_row,
    percentile_ms,
    run_times,
)
from crawlfleet.scheduling.alerts.evaluation import Measurements
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

SLOW_PART = 0.95


class FigureSampler:
    kinds = ("failure_rate", "avg_duration", "p95_duration")
    every_s = 0.0

    def __init__(self, *, figures: Figures) -> None:
        self._figures = figures

    async def measure(self, request: SampleRequest) -> Measurements:
        rule = request.rule
        series = [rule.scope]
        if rule.scope != ALL and ":" not in rule.scope:
            series = sorted(await self._figures.load_totals(rule.scope))
        if not series:
            return Measurements({})
        rows = await self._figures.sum_windows(series, RULE_KINDS[rule.kind].window_s * 1000)
        return Measurements({scope: figure_sample(rule.kind, scope, row) for scope, row in rows.items()})


def figure_sample(kind: str, scope: str, row: Sequence[int]) -> AlertSample:
    """Return the sample that a rule of this kind takes from the figures of a series."""
    row = full_row(row)
    runs = count_runs(row)
    subject = "all executions" if scope_kind(scope) == ALL else scope
    if not runs:
        return AlertSample(scope, None)
    if kind == "failure_rate":
        failed = row[FAILED] + row[TIMEOUT]
        value, why = failed / runs, f"{failed} of {runs} executions failed or timed out ({subject})."
    elif kind == "avg_duration":
        value = (average_run_ms(row) or 0.0) / 1000
        why = f"{runs} executions ran {value:.1f} s on average ({subject})."
    else:
        value = (percentile_ms(run_times(row), SLOW_PART) or 0.0) / 1000
        why = f"One in 20 of {runs} executions ran {value:.1f} s or more ({subject})."
    return AlertSample(scope, value, runs, why)
