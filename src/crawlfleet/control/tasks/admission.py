"""Admission control: the limit on waiting tasks, counted by the store at most a second ago and by this master since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.cluster_settings import MAX_WAITING_DEFAULT
from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.errors import OverLimit
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import WAITING_STATUSES
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.task_store import NewTask

RETRY_AFTER_S = 5.0
_MAX_AGE_S = 1.0
_MAX_COUNTS = 10_000
_INSTALLATION = None
"""Key of the count of the whole installation, beside those of the projects."""


@dataclass(frozen=True, slots=True)
class WaitingLimit:
    installation: int = MAX_WAITING_DEFAULT
    project: int = MAX_WAITING_DEFAULT


class WaitingCount:
    """Number of waiting tasks, in a project or in the whole installation."""

    __slots__ = ("admitted", "project", "read_at", "refresh", "stored", "under_way")
    refresh: SingleFlight

    def __init__(self, project: str | None) -> None:
        self.project = project
        self.stored = 0
        """Number of waiting tasks that the store counted."""
        self.read_at: float | None = None
        self.admitted = 0
        """Number of tasks that this master admitted since, and of those under way when the store counted."""
        self.under_way = 0


AdmissionTicket = Sequence[tuple[WaitingCount, int]]


class AdmissionControl:
    def __init__(
        self,
        *,
        store: FigureStore,
        clock: Clock,
        limit: WaitingLimit | None = None,
        configure: Configure | None = None,
    ) -> None:
        """Create the admission control. With `configure`, the installation's limit is the setting `max_waiting` of the
        default cluster."""
        self._store = store
        self._clock = clock
        self._limit = limit or WaitingLimit()
        self._configure = configure
        self._max_waiting = self._limit.installation
        self._waiting_counts: dict[str | None, WaitingCount] = {}

    async def admit_tasks(self, items: Sequence[NewTask | Refusal]) -> AdmissionTicket:
        """Admit tasks; the ticket is to be settled when they are stored. Raises OverLimit: then none is admitted."""
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
        for waiting_count, tasks in ticket:
            self._check_limit(waiting_count, tasks)
        for waiting_count, tasks in ticket:
            waiting_count.admitted += tasks
            waiting_count.under_way += tasks
        return ticket

    def settle_ticket(self, ticket: AdmissionTicket, *, is_stored: bool) -> None:
        for waiting_count, tasks in ticket:
            waiting_count.under_way -= tasks
            if not is_stored:
                waiting_count.admitted -= tasks

    def _check_limit(self, waiting_count: WaitingCount, tasks: int) -> None:
        waiting = waiting_count.stored + waiting_count.admitted
        limit = self._max_waiting if waiting_count.project is _INSTALLATION else self._limit.project
        if waiting + tasks > limit:
            whose = (
                "this installation" if waiting_count.project is _INSTALLATION else f"project {waiting_count.project!r}"
            )
            detail = f"{waiting} tasks of {whose} wait already; with {tasks} more they are above the limit of {limit}"
            raise OverLimit(detail, retry_after_s=RETRY_AFTER_S)

    async def _waiting_count(self, project: str | None) -> WaitingCount:
        waiting_count = self._waiting_counts.get(project)
        if waiting_count is None:
            if len(self._waiting_counts) >= _MAX_COUNTS:
                self._waiting_counts.clear()
            waiting_count = self._waiting_counts[project] = WaitingCount(project)
            waiting_count.refresh = SingleFlight(lambda: self._read_count(waiting_count), "waiting tasks")
        if not self._is_fresh(waiting_count):
            await waiting_count.refresh()
        return waiting_count

    def _is_fresh(self, waiting_count: WaitingCount) -> bool:
        return waiting_count.read_at is not None and self._clock.monotonic() - waiting_count.read_at < _MAX_AGE_S

    async def _read_count(self, waiting_count: WaitingCount) -> None:
        now_mono, since, under_way = self._clock.monotonic(), waiting_count.admitted, waiting_count.under_way
        totals = await self._store.task_totals(waiting_count.project)
        if waiting_count.project is _INSTALLATION and self._configure is not None:
            self._max_waiting = (await self._configure.load_effective_config(DEFAULT_CLUSTER)).settings.max_waiting
        waiting_count.stored = sum(totals.get(status, 0) for status in WAITING_STATUSES)
        # Tasks on their way to the store may be in its count already: then they count twice, for a second.
        waiting_count.admitted += under_way - since
        waiting_count.read_at = now_mono
