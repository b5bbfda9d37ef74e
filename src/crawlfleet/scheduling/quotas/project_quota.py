"""Quotas of projects: how many more tasks of a class a project may start or submit, and which quota is violated.

Reservations are bucketed to steps that binary fractions hold exactly, so that sums of them are exact and a quota is
kept to the last quarter of a core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from crawlfleet.model.instants import Instant
from crawlfleet.model.project import OnFull, Project, Use
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation

UNLIMITED = 1 << 62
LIMITED_RESOURCES = ("cpu", "memory_mb")
"""Names of the resources that have quotas."""


class QuotaViolation(NamedTuple):
    """The quota by which a project may not start a task now."""

    project: str
    quota: str
    limit: float
    used: float
    asked: float

    @property
    def exceeds_whole_quota(self) -> bool:
        """Whether the task asks for more than the whole quota."""
        return self.asked > self.limit

    @property
    def sentence(self) -> str:
        whose = f"quota '{self.quota}' of project {self.project}"
        if self.exceeds_whole_quota and self.quota != "running":
            return f"asks for {self.asked:g} {self.quota}, more than the whole {whose}: {self.limit:g}"
        asks = "" if self.quota == "running" else f", and it asks for {self.asked:g}"
        return f"{whose}: {self.used:g} of {self.limit:g} in use{asks}"

    def as_data(self) -> dict[str, Any]:
        return self._asdict()


class Allowance:
    """What a project may still start; it is deducted from as tasks are placed."""

    __slots__ = ("_exhausted", "_limits", "_project", "_use")

    def __init__(self, project: Project, use: Use, exhausted: DailyQuotaViolation | None = None) -> None:
        """`exhausted` is the daily quota of which nothing is left: then nothing starts."""
        self._project = project.name
        self._exhausted = exhausted
        self._use = Use(use.running, dict(use.reserved))
        quotas = project.quotas
        self._limits = [(name, limit) for name in LIMITED_RESOURCES if (limit := getattr(quotas, name)) is not None]
        if quotas.running is not None:
            self._limits.insert(0, ("running", quotas.running))

    def count_allowed(self, requirement: Requirement) -> int:
        """How many more tasks of the class may start."""
        allowed = UNLIMITED if self._exhausted is None else 0
        for name, limit in self._limits:
            requested = _requested_amount(requirement, name)
            if requested:
                allowed = min(allowed, int((limit - self._used(name)) // requested))
        return max(0, allowed)

    def deduct(self, requirement: Requirement, count: int) -> None:
        self._use.add_tasks(requirement, count)

    def violation(self, requirement: Requirement) -> QuotaViolation | DailyQuotaViolation | None:
        """The quota that one more task would violate; one that the task can never meet goes first."""
        violations = [
            QuotaViolation(self._project, name, limit, self._used(name), requested)
            for name, limit in self._limits
            if (requested := _requested_amount(requirement, name)) and self._used(name) + requested > limit
        ]
        first = min(violations, key=lambda full: not full.exceeds_whole_quota) if violations else None
        return first if first is not None and first.exceeds_whole_quota else self._exhausted or first

    @property
    def is_exhausted(self) -> bool:
        """Whether not even a task that reserves nothing may start."""
        if self._exhausted is not None:
            return True
        return bool(self._limits) and self._limits[0][0] == "running" and self._use.running >= self._limits[0][1]

    def _used(self, name: str) -> float:
        return self._use.running if name == "running" else self._use.reserved.get(name, 0.0)


def project_allowances(
    projects: Iterable[Project], use: Callable[[str], Use], exhausted: Mapping[str, DailyQuotaViolation]
) -> dict[str, Allowance]:
    """The allowance of each project whose quotas limit what runs; `exhausted` has the exhausted daily quotas."""
    return {
        project.name: Allowance(project, use(project.name), exhausted.get(project.name))
        for project in projects
        if project.quotas.limits_running or project.name in exhausted
    }


class SubmitQuota:
    """Admission of new tasks by the quotas of their project: the quota on waiting tasks; and where a project refuses
    rather than waits, its daily and running quotas too."""

    __slots__ = ("_exhausted", "_held", "_project", "_waiting")

    def __init__(self, project: Project, waiting: int, held: Use, exhausted: DailyQuotaViolation | None = None) -> None:
        """`exhausted` is the daily quota of which nothing is left."""
        self._exhausted = exhausted if project.on_full is OnFull.REFUSE else None
        self._project = project
        self._waiting = waiting
        self._held = Use(held.running, dict(held.reserved))

    def violation(self, requirements: Sequence[Requirement]) -> str | None:
        """The sentence on the quota that these tasks would violate; None if they fit."""
        name, quotas, count = self._project.name, self._project.quotas, len(requirements)
        if self._exhausted is not None and count:
            return self._exhausted.sentence
        if quotas.waiting is not None and self._waiting + count > quotas.waiting:
            return (
                f"quota 'waiting' of project {name}: {self._waiting} of {quotas.waiting} wait, {_excess_phrase(count)}"
            )
        if self._project.on_full is not OnFull.REFUSE:
            return None
        if quotas.running is not None and self._held.running + self._waiting + count > quotas.running:
            admitted = self._held.running + self._waiting
            used_up = f"{admitted} of {quotas.running} run or wait"
            return f"quota 'running' of project {name}: {used_up}, {_excess_phrase(count)}"
        for resource in LIMITED_RESOURCES:
            limit, used = getattr(quotas, resource), self._held.reserved.get(resource, 0.0)
            wanted = sum(_requested_amount(requirement, resource) for requirement in requirements)
            if limit is not None and wanted and used + wanted > limit:
                return f"quota '{resource}' of project {name}: {used:g} of {limit:g} in use, and {wanted:g} asked for"
        return None

    @property
    def renews_at(self) -> Instant | None:
        """When the exhausted daily quota renews; None if none is exhausted."""
        return None if self._exhausted is None else self._exhausted.renews_at

    def reserve(self, requirements: Sequence[Requirement]) -> None:
        self._waiting += len(requirements)
        for requirement in requirements:
            for resource, amount in requirement.resources:
                self._held.reserved[resource] = self._held.reserved.get(resource, 0.0) + amount


def _excess_phrase(count: int) -> str:
    return f"and {count} more would be above it"


def _requested_amount(requirement: Requirement, name: str) -> float:
    if name == "running":
        return 1
    return next((amount for resource, amount in requirement.resources if resource == name), 0.0)
