"""Project quotas: what the tasks of projects use, and the admission control of submissions by quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from crawlfleet.errors import OverLimit
from crawlfleet.model.daily_quota import utc_day
from crawlfleet.model.instants import Instant
from crawlfleet.model.project import OnFull, Project, Use
from crawlfleet.model.status import WAITING_STATUSES
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation, exhausted_quota
from crawlfleet.scheduling.quotas.project_quota import SubmitQuota
from crawlfleet.store.admin.counters import project_totals
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.projects.daily_quota import load_day_uses
from crawlfleet.store.projects.project_rows import LOCK_PROJECTS, project_from_row
from crawlfleet.store.tasks.lanes import LaneBook

HELD_LANES = "SELECT lane, COUNT(*) FROM live WHERE node <> 0 GROUP BY lane"
HELD_LANES_AMONG = (
    "SELECT l.lane, COUNT(*) FROM live l JOIN lane n ON n.id = l.lane WHERE l.node <> 0 AND n.project AMONG($1) "
    "GROUP BY l.lane"
)


async def load_submit_quotas(tx: Tx, lanes: LaneBook, names: Collection[str], now: Instant) -> dict[str, SubmitQuota]:
    """Lock projects, and load the submit quotas of those that limit submissions; they hold until this transaction
    ends."""
    projects = [project_from_row(row) for row in await tx.fetch(LOCK_PROJECTS, sorted(names))] if names else []
    limited = [project for project in projects if project.limits_submits]
    if not limited:
        return {}
    waiting = await waiting_by_project(tx, lanes, [project.name for project in limited])
    strict = [project for project in limited if project.on_full is OnFull.REFUSE]
    held = await held_by_project(tx, lanes, [project.name for project in strict]) if strict else {}
    exhausted = await _load_exhausted(tx, strict, now)
    return {
        project.name: SubmitQuota(
            project, waiting.get(project.name, 0), held.get(project.name, Use()), exhausted.get(project.name)
        )
        for project in limited
    }


def over_limit(full: str, renews_at: Instant | None, now: Instant) -> OverLimit:
    """Make the error for a project whose quota is exhausted, with the time after which to try again."""
    return OverLimit(full) if renews_at is None else OverLimit(full, retry_after_s=(renews_at - now) / 1000)


async def _load_exhausted(tx: Tx, projects: Sequence[Project], now: Instant) -> dict[str, DailyQuotaViolation]:
    daily, day = [project for project in projects if project.quotas.limits_days], utc_day(now)
    used = await load_day_uses(tx, [project.name for project in daily], day) if daily else {}
    return {project.name: full for project in daily if (full := exhausted_quota(project, used[project.name], day))}


async def waiting_by_project(tx: Tx, lanes: LaneBook, names: Sequence[str] | None = None) -> dict[str, int]:
    waiting: Counter[str] = Counter()
    for (project, status), count in (await project_totals(tx, lanes, names)).items():
        if status in WAITING_STATUSES:
            waiting[project] += count
    return waiting


async def held_by_project(tx: Tx, lanes: LaneBook, names: Sequence[str] | None = None) -> dict[str, Use]:
    rows = await (tx.fetch(HELD_LANES) if names is None else tx.fetch(HELD_LANES_AMONG, list(names)))
    await lanes.load_lanes(tx, (row[0] for row in rows))
    uses: dict[str, Use] = {}
    for lane, count in rows:
        uses.setdefault(lanes[lane].project, Use()).add_tasks(lanes[lane].requirement, int(count))
    return uses
