"""Measures tasks: how many wait and for how long, how many were given up, and which no node can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Protocol

from crawlfleet.control.admin.figures import QUEUED_STATUSES, Figures
from crawlfleet.control.alerts.alert_sampling import SampleRequest
from crawlfleet.model.alerts.alert import INSTALLATION_SCOPE, AlertSample
from crawlfleet.model.figures.task_figures import ALL, PROJECT, QUEUE, TASKS_FAILED, TASKS_TIMEOUT, full_row
from crawlfleet.model.instants import to_text
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.alert_store import AlertSampleStore
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.scheduling.alerts.evaluation import Measurements
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

CAUSES_READ = 200
"""Number of the newest dead letters whose causes are counted."""
CAUSES_SHOWN = 3


class TaskSampleStore(FigureStore, AlertSampleStore, Protocol):
    """The part of the store for measuring tasks."""


class TaskSampler:
    kinds = ("queue_size", "oldest_wait", "dead_letters", "tasks_stuck")
    every_s = 0.0

    def __init__(
        self, *, store: TaskSampleStore, figures: Figures, blocked: Callable[[], Collection[Requirement]]
    ) -> None:
        """Create the sampler; `blocked` returns the requirements that no node can meet, as the dispatcher sees it."""
        self._store = store
        self._figures = figures
        self._blocked = blocked

    async def measure(self, request: SampleRequest) -> Measurements:
        match request.rule.kind:
            case "queue_size":
                samples = await self._queue_samples()
            case "oldest_wait":
                samples = [await self._wait_sample(request)]
            case "dead_letters":
                samples = [await self._dead_letter_sample()]
            case _:
                samples = [await self._stuck_sample()]
        return Measurements({sample.scope: sample for sample in samples})

    async def _queue_samples(self) -> list[AlertSample]:
        samples = []
        for kind in (QUEUE, PROJECT):
            sizes = {
                name: sum(counts[status] for status in QUEUED_STATUSES)
                for name, counts in (await self._figures.count_tasks(kind)).items()
            }
            samples += [
                AlertSample(f"{kind}:{name}", size, why=f"{_tasks_wait(size)} in {kind} {name}.")
                for name, size in sizes.items()
                if name
            ]
            if kind == QUEUE:
                total = sum(sizes.values())
                samples.append(AlertSample(INSTALLATION_SCOPE, total, why=f"{_tasks_wait(total)}."))
        return samples

    async def _wait_sample(self, request: SampleRequest) -> AlertSample:
        ready_at = await self._store.oldest_ready()
        if ready_at is None:
            return AlertSample(INSTALLATION_SCOPE, 0.0, why="No task waits for a node.")
        waited_s = max(0.0, (request.now - ready_at) / 1000)
        why = f"The oldest ready task has waited for {waited_s:.0f} s, since {to_text(ready_at)}."
        return AlertSample(INSTALLATION_SCOPE, waited_s, why=why)

    async def _dead_letter_sample(self) -> AlertSample:
        window_s = RULE_KINDS["dead_letters"].window_s
        row = full_row(await self._figures.sum_window(ALL, window_s * 1000))
        count = row[TASKS_FAILED] + row[TASKS_TIMEOUT]
        if not count:
            return AlertSample(INSTALLATION_SCOPE, 0.0)
        causes = (await self._store.recent_causes(CAUSES_READ))[:CAUSES_SHOWN]
        listed = "; ".join(f"{number} x {cause}" for cause, number in causes)
        why = f"{count} tasks became dead letters within {window_s // 60} minutes. The newest: {listed}."
        return AlertSample(INSTALLATION_SCOPE, count, why=why)

    async def _stuck_sample(self) -> AlertSample:
        blocked = self._blocked()
        stuck = Counter[str]()
        if blocked:
            for lane, counts in await self._figures.count_lanes():
                if lane.requirement in blocked:
                    stuck[lane.requirement.task_type] += counts.get(TaskStatus.PENDING, 0)
        count = sum(stuck.values())
        listed = ", ".join(f"{number} {name}" for name, number in stuck.most_common(CAUSES_SHOWN))
        why = f"No node can take {count} ready tasks ({listed})." if count else ""
        return AlertSample(INSTALLATION_SCOPE, count, why=why)


def _tasks_wait(count: int) -> str:
    return "1 task waits" if count == 1 else f"{count} tasks wait"
