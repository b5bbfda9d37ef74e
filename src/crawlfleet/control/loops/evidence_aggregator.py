"""Folds the event log into evidence on nodes: how executions ended there, each event once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from crawlfleet.control.leader.evidence_cache import EvidenceCache
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop
from crawlfleet.control.tasks.task_content import content_features, first_parameter_host
from crawlfleet.model.evidence import EvidenceRow, Record
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EndedRun, EvidenceStore
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.scheduling.placement.evidence_subjects import outcome_subjects

ROWS = 20
"""Rows of the event log in one pass: some thousands of executions where there is much to do."""
TASKS_PER_READ = 50
"""Tasks that are read at a time with their parameters, each up to a megabyte."""
# The task's own mistake, or forbidden by us: no other node would have done better.
_NOT_THE_NODE = frozenset({ErrorClass.INPUT, ErrorClass.POLICY})


class _EvidenceStore(EvidenceStore, NodeStore, Protocol):
    pass


class EvidenceAggregator(LeaderLoop):
    name = "learner"
    pause_s = 1.0

    def __init__(
        self, *, store: _EvidenceStore, clock: Clock, leadership: LeadershipState, evidence: EvidenceCache
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._evidence_cache = evidence

    async def run_term(self, term: int, now: Instant) -> bool:
        """Fold one batch; True if there may be more."""
        ended = await self._store.ended_runs(ROWS)
        if ended is None or ended.up_to == ended.after:
            return False
        changed = await self._store.fold_evidence(ended, await self._new_evidence(ended.runs), term)
        if changed:
            self._evidence_cache.apply_folded(changed, term)
        return True

    async def _new_evidence(self, runs: Sequence[EndedRun]) -> list[EvidenceRow]:
        relevant = [run for run in runs if run.error not in _NOT_THE_NODE]
        features = await self._features(relevant)
        if not features:
            return []
        hosts = await self._hosts(list(features))
        relevant = [run for run in relevant if run.task in features]
        nodes = await self._store.load_nodes(sorted({run.node for run in relevant}))
        addresses = {node.id: node.description.address for node in nodes}
        return [
            EvidenceRow(run.node, subject, addresses.get(run.node, ""), _record(run))
            for run in relevant
            for subject in outcome_subjects(features[run.task], hosts.get(run.task))
        ]

    async def _hosts(self, tasks: Sequence[TaskId]) -> dict[TaskId, str | None]:
        hosts: dict[TaskId, str | None] = {}
        for start in range(0, len(tasks), TASKS_PER_READ):
            parameters = await self._store.task_parameters(tasks[start : start + TASKS_PER_READ])
            hosts.update({task: first_parameter_host(raw) for task, raw in parameters.items()})
        return hosts

    async def _features(self, runs: Sequence[EndedRun]) -> dict[TaskId, dict[str, Any]]:
        """The content features of tasks that name some, or are placed by them."""
        contents = await self._store.task_contents(sorted({run.task for run in runs}))
        by_task = {
            task: (content.requirement.subjects, content_features(content.spec)) for task, content in contents.items()
        }
        return {task: features for task, (subjects, features) in by_task.items() if subjects or features}


def _record(run: EndedRun) -> Record:
    match run.error:
        case None:
            return Record(ok=1.0, at=run.at)
        case ErrorClass.BLOCKED:
            return Record(blocked=1.0, at=run.at, last_blocked_at=run.at)
        case _:
            return Record(failed=1.0, at=run.at)
