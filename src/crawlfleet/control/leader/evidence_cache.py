"""Cache of the evidence that strategies use, and of the locations of regions.

The leader keeps the evidence on requested subjects in memory, and adds what the evidence aggregator folds. It is a
cache of the store, dropped with the term.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.model.evidence import EvidenceRow, Record, Subject
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.requirement import Requirement
from crawlfleet.ports.event_store import EvidenceStore
from crawlfleet.scheduling.placement.regions import DEFAULT_REGIONS, Location, Regions
from crawlfleet.scheduling.placement.strategies import Evidence, Knowledge

MAX_SUBJECTS = 2_000

_Rows = dict[Subject, dict[NodeId, tuple[str, Record]]]


class EvidenceCache:
    def __init__(self, *, store: EvidenceStore, configure: Configure) -> None:
        self._store = store
        self._configure = configure
        self._rows: _Rows = {}
        self._term: int | None = None
        self._folds = 0
        self._regions = DEFAULT_REGIONS
        self._regions_config: object = {}

    async def for_pass(self, requirements: Iterable[Requirement], term: int, now: Instant) -> Knowledge:
        """The knowledge for a pass of the leader: from memory, except for subjects that are new."""
        self._begin_term(term)
        subjects = {subject for requirement in requirements for subject in requirement.subjects}
        if missing := subjects.difference(self._rows):
            await self._load_subjects(sorted(missing))
        return Knowledge(now, Evidence(self._rows), self.current_regions())

    async def for_task(self, requirement: Requirement, now: Instant) -> Knowledge:
        """The knowledge for an explanation of one task, on any master: from the store."""
        rows = await self._store.load_evidence(requirement.subjects)
        return Knowledge(now, Evidence(_by_subject(requirement.subjects, rows)), self.current_regions())

    def apply_folded(self, rows: Sequence[EvidenceRow], term: int) -> None:
        """Add rows that the evidence aggregator has just committed."""
        self._begin_term(term)
        self._folds += 1
        for row in rows:
            if row.subject in self._rows:
                self._rows[row.subject][row.node] = row.address, row.record

    def current_regions(self) -> Regions:
        configured = self._configure.cached_config(DEFAULT_CLUSTER).settings.regions
        if configured is not self._regions_config:
            self._regions_config = configured
            places = {
                name: Location(region["country"], region["latitude"], region["longitude"])
                for name, region in configured.items()
            }
            self._regions = Regions(places) if places else DEFAULT_REGIONS
        return self._regions

    async def _load_subjects(self, subjects: Sequence[Subject]) -> None:
        folds = self._folds
        rows = await self._store.load_evidence(subjects)
        if folds != self._folds:
            # Rows may have changed after they were read: the next pass reads them again.
            return
        if len(self._rows) + len(subjects) > MAX_SUBJECTS:
            self._rows = {}
        self._rows |= _by_subject(subjects, rows)

    def _begin_term(self, term: int) -> None:
        if term != self._term:
            self._term = term
            self._rows = {}


def _by_subject(subjects: Iterable[Subject], rows: Iterable[EvidenceRow]) -> _Rows:
    by_subject: _Rows = {subject: {} for subject in subjects}
    for row in rows:
        by_subject[row.subject][row.node] = row.address, row.record
    return by_subject
