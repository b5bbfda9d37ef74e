"""Projects: the fair share of each, and its quotas."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import Requirement

WEIGHT_MIN, WEIGHT_MAX = 0.01, 1_000.0
WEIGHT_DEFAULT = 1.0


class OnFull(IntEnum):
    """The policy for a new task that its project's running or daily quotas do not allow, and for an execution for which
    nothing of the day is left."""

    WAIT = 0
    REFUSE = 1

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of a project; None: no limit. They hold for what is to come: lowering one stops nothing that runs."""

    waiting: int | None = None
    running: int | None = None
    cpu: float | None = None
    memory_mb: float | None = None
    pages_per_day: int | None = None
    bytes_per_day: int | None = None

    @property
    def limits_running(self) -> bool:
        return self.running is not None or self.cpu is not None or self.memory_mb is not None

    @property
    def limits_days(self) -> bool:
        """Whether the requests of its executions are metered."""
        return self.pages_per_day is not None or self.bytes_per_day is not None


@dataclass(frozen=True, slots=True)
class Project:
    """A project. One that was never configured has the defaults, and version 0."""

    name: str
    weight: float = WEIGHT_DEFAULT
    """Weight of the project for its fair share."""
    quotas: Quotas = Quotas()
    on_full: OnFull = OnFull.WAIT
    version: int = 0
    """Number of the configuration's version."""
    fence: int = 0
    """Number that changes whenever the leader must read the project again before it places more: new quotas, an
    assignment by hand."""
    changed_at: Instant | None = None

    @property
    def limits_submits(self) -> bool:
        """Whether a submission may be refused because of its quotas."""
        quotas = self.quotas
        is_strict = self.on_full is OnFull.REFUSE
        return quotas.waiting is not None or (is_strict and (quotas.limits_running or quotas.limits_days))


@dataclass(slots=True)
class Use:
    """The slots and resources that the tasks of a project hold on nodes."""

    running: int = 0
    reserved: dict[str, float] = field(default_factory=dict)
    """Reserved amounts by resource."""

    def add_tasks(self, requirement: Requirement, count: int = 1) -> None:
        self.running += count
        reserved = self.reserved
        for name, amount in requirement.resources:
            reserved[name] = reserved.get(name, 0.0) + count * amount
