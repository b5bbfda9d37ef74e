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
from crawlfleet.ports.evidence import EvidenceStore
from crawlfleet.scheduling.placement.regions import USUAL_REGIONS, Place, Regions
from crawlfleet.scheduling.placement.strategies import Evidence, Knowledge

SUBJECTS_KEPT = 2_000

_Rows = dict[Subject, dict[NodeId, tuple[str, Record]]]


class Knowing:
    def __init__(self, *, store: EvidenceStore, configure: Configure) -> None:
        self._store = store
        self._configure = configure
        self._rows: _Rows = {}
        self._term: int | None = None
        self._folds = 0
        self._regions = USUAL_REGIONS
        self._regions_of: object = {}

    async def for_pass(self, requirements: Iterable[Requirement], term: int, now: Instant) -> Knowledge:
        """The knowledge for a pass of the leader: from memory, except for subjects that are new."""
        self._begin(term)
        subjects = {subject for requirement in requirements for subject in requirement.subjects}
        if missing := subjects.difference(self._rows):
            await self._load(sorted(missing))
        return Knowledge(now, Evidence(self._rows), self.regions())

    async def now(self, requirement: Requirement, now: Instant) -> Knowledge:
        """The knowledge for an explanation of one task, on any master: from the store."""
        rows = await self._store.evidence(requirement.subjects)
        return Knowledge(now, Evidence(_by_subject(requirement.subjects, rows)), self.regions())

    def folded(self, rows: Sequence[EvidenceRow], term: int) -> None:
        """Add rows that the evidence aggregator has just committed."""
        self._begin(term)
        self._folds += 1
        for row in rows:
            if row.subject in self._rows:
                self._rows[row.subject][row.node] = row.address, row.record

    def regions(self) -> Regions:
        own = self._configure.known(DEFAULT_CLUSTER).values["regions"]
        if own is not self._regions_of:
            self._regions_of = own
            places = {name: Place(each["country"], each["latitude"], each["longitude"]) for name, each in own.items()}
            self._regions = Regions(places) if places else USUAL_REGIONS
        return self._regions

    async def _load(self, subjects: Sequence[Subject]) -> None:
        folds = self._folds
        rows = await self._store.evidence(subjects)
        if folds != self._folds:
            # Rows may have changed after they were read: the next pass reads them again.
            return
        if len(self._rows) + len(subjects) > SUBJECTS_KEPT:
            self._rows = {}
        self._rows |= _by_subject(subjects, rows)

    def _begin(self, term: int) -> None:
        if term != self._term:
            self._term = term
            self._rows = {}


def _by_subject(subjects: Iterable[Subject], rows: Iterable[EvidenceRow]) -> _Rows:
    found: _Rows = {subject: {} for subject in subjects}
    for row in rows:
        found[row.subject][row.node] = row.address, row.record
    return found
