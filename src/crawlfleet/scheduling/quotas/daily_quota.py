"""Daily quotas: the slice of its project's quota that an execution is granted, and the denial when none is left.

The sum of what is granted and not given back never passes the quota: a grant holds the lock on the count of the day. No
execution is granted more than a share of what is left, so that none holds the quota of all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from crawlfleet.model.daily_quota import (
    FIRST,
    MOST,
    QUOTAS,
    Amounts,
    Day,
    Holding,
    QuotaDenial,
    SliceRequest,
    day_end,
    utc_day,
)
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.project import OnFull, Project, Quotas

SHARE_DIVISOR = 8
"""Divisor of what is left that gives the largest grant."""
MIN_GRANT = Amounts(1, 64 << 10)
_NO_LIMIT = 1 << 62


class DailyQuotaViolation(NamedTuple):
    """A daily quota of which nothing is left, or too little."""

    project: str
    quota: str
    limit: int
    used: int
    left: int
    renews_at: Instant

    @property
    def sentence(self) -> str:
        words = self.quota.replace("_", " ")
        return f"quota '{words}' of project {self.project}: {self.left:,} of {self.limit:,} left until 00:00 UTC"

    def as_data(self) -> dict[str, Any]:
        return self._asdict() | {"renews_at": to_text(self.renews_at)}


def exhausted_quota(project: Project, used: Amounts, day: Day) -> DailyQuotaViolation | None:
    """The first daily quota that is exhausted."""
    return next((quota for quota in _daily_quotas(project, used, day) if not quota.left), None)


def short_quota(project: Project, used: Amounts, day: Day) -> DailyQuotaViolation | None:
    """The first daily quota of which less is left than is worth a retry of a task that was parked for it: a retry
    begins from the start, and would use up what others need."""
    short_quotas = (quota for quota in _daily_quotas(project, used, day) if quota.left < _worth_a_retry(quota))
    return min(short_quotas, key=lambda full: full.left > 0, default=None)


def count_retriable(project: Project, used: Amounts, day: Day) -> int:
    """How many tasks that were parked for a daily quota are retried now: as many as what is left is enough for."""
    if short_quota(project, used, day) is not None:
        return 0
    return min((quota.left // _worth_a_retry(quota) for quota in _daily_quotas(project, used, day)), default=_NO_LIMIT)


def _daily_quotas(project: Project, used: Amounts, day: Day) -> Iterator[DailyQuotaViolation]:
    for quota, amount in zip(QUOTAS, used, strict=True):
        limit = getattr(project.quotas, quota)
        if limit is not None:
            yield DailyQuotaViolation(project.name, quota, limit, amount, max(0, limit - amount), day_end(day))


def _worth_a_retry(quota: DailyQuotaViolation) -> int:
    return max(1, min(FIRST[QUOTAS.index(quota.quota)], quota.limit // 4))


def grant_amounts(requested: Amounts, quotas: Quotas, used: Amounts) -> Amounts:
    """The amounts to grant; `used` is what is used or held by executions already."""
    parts = []
    for quota, wanted, amount, minimum, maximum in zip(QUOTAS, requested, used, MIN_GRANT, MOST, strict=True):
        limit = getattr(quotas, quota)
        left = _NO_LIMIT if limit is None else max(0, limit - amount)
        parts.append(min(max(0, wanted), left, max(minimum, left // SHARE_DIVISOR), maximum))
    return Amounts(*parts)


def quota_denials(
    want: SliceRequest, granted: Amounts, holding: Holding, project: Project, used: Amounts, now: Instant
) -> list[QuotaDenial]:
    """The denial of each requested amount of which nothing is left. `used` and `holding` are as they were before."""
    denials = []
    day = utc_day(now)
    own = holding.today if holding.day == day else Amounts()
    for quota, requested, given, amount, own_amount in zip(QUOTAS, want.amounts, granted, used, own, strict=True):
        if requested <= 0 or given:
            continue
        limit: int = getattr(project.quotas, quota)
        violation = DailyQuotaViolation(project.name, quota, limit, amount, 0, day_end(day))
        if 0 < limit <= own_amount:
            words = quota.replace("_", " ")
            whole = f"needs more than the whole quota '{words}' of project {project.name}: {limit:,}"
            denials.append(QuotaDenial(quota, project.name, whole, 0))
        else:
            waits = project.on_full is OnFull.WAIT
            again_ms = violation.renews_at - now if waits else 0
            denials.append(QuotaDenial(quota, project.name, violation.sentence, again_ms, is_held=amount > own_amount))
    return denials


def holding_after_grant(holding: Holding, want: SliceRequest, granted: Amounts, day: Day) -> Holding:
    """What the execution holds after a grant. Amounts of an older day cannot be given back any more."""
    today = holding.today if holding.day == day else Amounts()
    return holding._replace(day=day, number=want.number, today=today.plus(granted), total=holding.total.plus(granted))


def unused_amounts(holding: Holding, used: Amounts) -> Amounts:
    """The amounts of the day of its last grant that an ended execution did not use. The oldest is used first."""
    return Amounts(
        *(
            min(today, max(0, total - amount))
            for today, total, amount in zip(holding.today, holding.total, used, strict=True)
        )
    )
