"""Measures projects: how much of their daily quotas they used."""

from __future__ import annotations

from crawlfleet.control.alerts.alert_sampling import SampleRequest
from crawlfleet.model.alerts.alert import AlertSample
from crawlfleet.model.daily_quota import Amounts, utc_day
from crawlfleet.model.project import Project
from crawlfleet.ports.project_store import ProjectStore
from crawlfleet.scheduling.alerts.evaluation import Measurements


class QuotaSampler:
    kinds = ("quota_spent",)
    every_s = 10.0

    def __init__(self, *, store: ProjectStore) -> None:
        self._store = store

    async def measure(self, request: SampleRequest) -> Measurements:
        projects = [project for project in await self._store.list_projects() if project.quotas.limits_days]
        uses = await self._store.day_uses([project.name for project in projects], utc_day(request.now))
        samples = [_quota_sample(project, uses[project.name]) for project in projects]
        return Measurements({sample.scope: sample for sample in samples})


def _quota_sample(project: Project, use: Amounts) -> AlertSample:
    quotas = project.quotas
    parts = [
        (used / limit if limit else 1.0, f"{used} of {limit} {what}")
        for used, limit, what in (
            (use.pages, quotas.pages_per_day, "pages"),
            (use.bytes, quotas.bytes_per_day, "bytes"),
        )
        if limit is not None
    ]
    value, words = max(parts)
    return AlertSample(f"project:{project.name}", value, why=f"Project {project.name} used {words} of today.")
