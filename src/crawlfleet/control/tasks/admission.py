"""The limit on tasks that wait: counted by the store, at most a second ago, and by this master since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from crawlfleet.control.admin.cluster_config import MAX_WAITING_DEFAULT, Configure
from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.errors import OverLimit
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import WAITING_STATUSES
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.task_store import NewTask
from crawlfleet.ports.upkeep import Upkeep

RETRY_AFTER_S = 5.0
_MAX_AGE_S = 1.0
_MAX_COUNTS = 10_000
_INSTALLATION = None
"""The figure of the whole installation stands beside those of the projects."""


@dataclass(frozen=True, slots=True)
class WaitingLimit:
    installation: int = MAX_WAITING_DEFAULT
    project: int = MAX_WAITING_DEFAULT


class WaitingCount:
    """How many tasks wait, in a project or in all."""

    __slots__ = ("admitted", "project", "read_at", "refresh", "stored", "under_way")
    refresh: SingleFlight

    def __init__(self, project: str | None) -> None:
        self.project = project
        self.stored = 0
        """What the store said."""
        self.read_at: float | None = None
        self.admitted = 0
        """What this master took since, and what was on its way when the store was asked."""
        self.under_way = 0


AdmissionTicket = Sequence[tuple[WaitingCount, int]]


class AdmissionControl:
    def __init__(
        self, *, store: Upkeep, clock: Clock, limit: WaitingLimit | None = None, configure: Configure | None = None
    ) -> None:
        """With `configure`, the installation's limit is the setting `max_waiting` of the default cluster."""
        self._store = store
        self._clock = clock
        self._limit = limit or WaitingLimit()
        self._configure = configure
        self._max_waiting = self._limit.installation
        self._waiting_counts: dict[str | None, WaitingCount] = {}

    async def admit(self, items: Sequence[NewTask | Refusal]) -> AdmissionTicket:
        """Room for these tasks, to be settled when they are stored. Raises OverLimit: then none of them is taken."""
        count = [type(item) for item in items].count(NewTask)
        if not count:
            return ()
        installation = self._waiting_counts.get(_INSTALLATION)
        if installation is None or not self._is_fresh(installation):
            installation = await self._waiting_count(_INSTALLATION)
        ticket = [(installation, count)]
        if self._limit.project < self._max_waiting:
            projects = Counter(item.project for item in items if isinstance(item, NewTask))
            ticket += [(await self._waiting_count(project), tasks) for project, tasks in projects.items()]
        for figure, tasks in ticket:
            self._check_limit(figure, tasks)
        for figure, tasks in ticket:
            figure.admitted += tasks
            figure.under_way += tasks
        return ticket

    def settle_ticket(self, ticket: AdmissionTicket, *, is_stored: bool) -> None:
        for figure, tasks in ticket:
            figure.under_way -= tasks
            if not is_stored:
                figure.admitted -= tasks

    def _check_limit(self, figure: WaitingCount, tasks: int) -> None:
        waiting = figure.stored + figure.admitted
        limit = self._max_waiting if figure.project is _INSTALLATION else self._limit.project
        if waiting + tasks > limit:
            whose = "this installation" if figure.project is _INSTALLATION else f"project {figure.project!r}"
            detail = f"{waiting} tasks of {whose} wait already; with {tasks} more they are above the limit of {limit}"
            raise OverLimit(detail, retry_after_s=RETRY_AFTER_S)

    async def _waiting_count(self, project: str | None) -> WaitingCount:
        figure = self._waiting_counts.get(project)
        if figure is None:
            if len(self._waiting_counts) >= _MAX_COUNTS:
                self._waiting_counts.clear()
            figure = self._waiting_counts[project] = WaitingCount(project)
            figure.refresh = SingleFlight(lambda: self._read_count(figure), "waiting tasks")
        if not self._is_fresh(figure):
            await figure.refresh()
        return figure

    def _is_fresh(self, figure: WaitingCount) -> bool:
        return figure.read_at is not None and self._clock.monotonic() - figure.read_at < _MAX_AGE_S

    async def _read_count(self, figure: WaitingCount) -> None:
        now_mono, since, under_way = self._clock.monotonic(), figure.admitted, figure.under_way
        totals = await self._store.totals(figure.project)
        if figure.project is _INSTALLATION and self._configure is not None:
            self._max_waiting = (await self._configure.effective(DEFAULT_CLUSTER)).values["max_waiting"]
        figure.stored = sum(totals.get(status, 0) for status in WAITING_STATUSES)
        # What was on its way to the store may be in its count already: then it counts twice, for a second.
        figure.admitted += under_way - since
        figure.read_at = now_mono
