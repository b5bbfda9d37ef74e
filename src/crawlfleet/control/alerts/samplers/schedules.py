"""Measures schedules: ticks that were left out, and runs that gave far less than the ones before."""

from __future__ import annotations

from statistics import median

import msgspec

from crawlfleet.control.alerts.alert_sampling import SampleRequest
from crawlfleet.errors import InvalidInput
from crawlfleet.model.alerts.alert import AlertSample
from crawlfleet.model.ids import ScheduleId, parse_id, schedule_text
from crawlfleet.model.instants import to_text
from crawlfleet.ports.alert_store import AlertSampleStore, ScheduleRuns
from crawlfleet.scheduling.alerts.evaluation import Measurements
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

LATE_MS = 60_000
"""Span after which a tick that is due and has not fired counts as missed."""
MAX_TICKS = 1_000
MAX_SCHEDULES = 200
"""Number of schedules whose runs are compared at a time; the others follow."""
COMPARED_RUNS = 7


class MissedTickSampler:
    kinds = ("schedule_missed",)
    every_s = 5.0

    def __init__(self, *, store: AlertSampleStore) -> None:
        self._store = store

    async def measure(self, request: SampleRequest) -> Measurements:
        since = request.now - RULE_KINDS[request.rule.kind].window_s * 1000
        ticks = await self._store.left_out_ticks(since, request.now - LATE_MS, MAX_TICKS)
        samples: dict[str, AlertSample] = {}
        for tick in ticks:
            scope = f"schedule:{schedule_text(tick.schedule)}"
            why = f"Schedule {tick.name} did not run at {to_text(tick.run_at)}: {tick.reason}."
            samples.setdefault(scope, AlertSample(scope, 1.0, why=why))
        for scope in request.active_scopes:
            # Nothing is left out any more: it recovers as any other rule does, and a removed schedule too.
            samples.setdefault(scope, AlertSample(scope, 0.0))
        return Measurements(samples, is_complete=False)


class RunSampler:
    """Compares the items of the last run of a schedule with the median of the runs before it."""

    kinds = ("no_results",)
    every_s = 15.0

    def __init__(self, *, store: AlertSampleStore) -> None:
        self._store = store
        self._after: dict[str, ScheduleId] = {}

    async def measure(self, request: SampleRequest) -> Measurements:
        name, count = request.rule.name, COMPARED_RUNS + 1
        runs = await self._store.schedule_runs(self._after.get(name, 0), MAX_SCHEDULES, count)
        self._after[name] = runs[-1].schedule if len(runs) == MAX_SCHEDULES else 0
        active = {scope: number for scope in request.active_scopes if (number := _schedule_number(scope)) is not None}
        compared = {each.schedule: each for each in runs}
        missing = [number for number in active.values() if number not in compared]
        compared |= {each.schedule: each for each in await self._store.runs_of_schedules(missing, count)}
        samples = [_run_sample(each) for each in compared.values()]
        gone = frozenset(scope for scope, number in active.items() if number not in compared)
        return Measurements({sample.scope: sample for sample in samples}, is_complete=False, gone=gone)


class _ItemMetrics(msgspec.Struct):
    items: int = 0


def _run_sample(runs: ScheduleRuns) -> AlertSample:
    scope = f"schedule:{schedule_text(runs.schedule)}"
    items = [_item_count(metrics) for metrics in runs.metrics]
    usual_items = median(items[1:]) if len(items) > 1 else 0
    if not usual_items:
        return AlertSample(scope, None)
    why = f"The last run of schedule {runs.name} gave {items[0]} items; {usual_items:g} are usual."
    return AlertSample(scope, items[0] / usual_items, count=len(items) - 1, why=why)


def _item_count(metrics: bytes | None) -> int:
    """Return the number of items in the metrics of a run; an executor that counts in a form of its own has none."""
    try:
        return max(0, msgspec.json.decode(metrics or b"{}", type=_ItemMetrics).items)
    except msgspec.DecodeError:
        return 0


def _schedule_number(scope: str) -> ScheduleId | None:
    try:
        return parse_id(scope.partition(":")[2], "schedule", field="scope")
    except InvalidInput:
        return None
