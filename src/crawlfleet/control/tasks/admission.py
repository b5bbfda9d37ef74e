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
_FRESH_S = 1.0
_FIGURES_KEPT = 10_000
_ALL = None
"""The figure of the whole installation stands beside those of the projects."""


@dataclass(frozen=True, slots=True)
class WaitingLimit:
    installation: int = MAX_WAITING_DEFAULT
    project: int = MAX_WAITING_DEFAULT


class Figure:
    """How many tasks wait, in a project or in all."""

    __slots__ = ("known", "look", "project", "read_at", "since", "under_way")
    look: SingleFlight

    def __init__(self, project: str | None) -> None:
        self.project = project
        self.known = 0
        """What the store said."""
        self.read_at: float | None = None
        self.since = 0
        """What this master took since, and what was on its way when the store was asked."""
        self.under_way = 0


Room = Sequence[tuple[Figure, int]]


class Waiting:
    def __init__(
        self, *, store: Upkeep, clock: Clock, limit: WaitingLimit | None = None, configure: Configure | None = None
    ) -> None:
        """With `configure`, the installation's limit is the setting `max_waiting` of the default cluster."""
        self._store = store
        self._clock = clock
        self._limit = limit or WaitingLimit()
        self._configure = configure
        self._most = self._limit.installation
        self._figures: dict[str | None, Figure] = {}

    async def admit(self, items: Sequence[NewTask | Refusal]) -> Room:
        """Room for these tasks, to be settled when they are stored. Raises OverLimit: then none of them is taken."""
        count = [type(item) for item in items].count(NewTask)
        if not count:
            return ()
        everyone = self._figures.get(_ALL)
        if everyone is None or not self._is_fresh(everyone):
            everyone = await self._figure(_ALL)
        room = [(everyone, count)]
        if self._limit.project < self._most:
            projects = Counter(item.project for item in items if isinstance(item, NewTask))
            room += [(await self._figure(project), tasks) for project, tasks in projects.items()]
        for figure, tasks in room:
            self._check(figure, tasks)
        for figure, tasks in room:
            figure.since += tasks
            figure.under_way += tasks
        return room

    def settle(self, room: Room, *, is_stored: bool) -> None:
        for figure, tasks in room:
            figure.under_way -= tasks
            if not is_stored:
                figure.since -= tasks

    def _check(self, figure: Figure, tasks: int) -> None:
        waiting = figure.known + figure.since
        most = self._most if figure.project is _ALL else self._limit.project
        if waiting + tasks > most:
            whose = "this installation" if figure.project is _ALL else f"project {figure.project!r}"
            detail = f"{waiting} tasks of {whose} wait already; with {tasks} more they are above the limit of {most}"
            raise OverLimit(detail, retry_after_s=RETRY_AFTER_S)

    async def _figure(self, project: str | None) -> Figure:
        figure = self._figures.get(project)
        if figure is None:
            if len(self._figures) >= _FIGURES_KEPT:
                self._figures.clear()
            figure = self._figures[project] = Figure(project)
            figure.look = SingleFlight(lambda: self._read(figure), "waiting tasks")
        if not self._is_fresh(figure):
            await figure.look()
        return figure

    def _is_fresh(self, figure: Figure) -> bool:
        return figure.read_at is not None and self._clock.monotonic() - figure.read_at < _FRESH_S

    async def _read(self, figure: Figure) -> None:
        at, since, under_way = self._clock.monotonic(), figure.since, figure.under_way
        totals = await self._store.totals(figure.project)
        if figure.project is _ALL and self._configure is not None:
            self._most = (await self._configure.effective(DEFAULT_CLUSTER)).values["max_waiting"]
        figure.known = sum(totals.get(status, 0) for status in WAITING_STATUSES)
        # What was on its way to the store may be in its count already: then it counts twice, for a second.
        figure.since += under_way - since
        figure.read_at = at
