"""Finds the projects whose daily quota is exhausted. Costs nothing where no project has daily quotas."""

from __future__ import annotations

from collections.abc import Iterable

from crawlfleet.model.daily_quota import utc_day
from crawlfleet.model.instants import Instant
from crawlfleet.model.project import Project
from crawlfleet.ports.project_store import ProjectStore
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation, exhausted_quota


async def exhausted_daily_quotas(
    store: ProjectStore, projects: Iterable[Project], now: Instant
) -> dict[str, DailyQuotaViolation]:
    daily, day = [project for project in projects if project.quotas.limits_days], utc_day(now)
    if not daily:
        return {}
    used = await store.day_uses([project.name for project in daily], day)
    return {project.name: full for project in daily if (full := exhausted_quota(project, used[project.name], day))}
