"""The lanes of submitted tasks, cached by what the tasks say of them. A lane is new until the store has its row."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from crawlfleet.model.evidence import Subject
from crawlfleet.model.ids import parse_id
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.requirement import Requirement, canonical_capabilities, canonical_resources, round_resources
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.maintenance_store import LANE_FRESH_S
from crawlfleet.ports.task_store import TaskStore
from crawlfleet.wire.tasks import TaskBody

_MAX_LANES = 10_000
_MAX_AGE_S = LANE_FRESH_S / 3
"""Age in seconds after which lanes count as new, so that the store makes sure of their rows long before it has to."""


class LaneCache:
    def __init__(self, *, store: TaskStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lanes: dict[Hashable, Lane] = {}
        self._new_lanes: dict[LaneId, Lane] = {}
        self._cached_since = clock.monotonic()

    @property
    def has_new(self) -> bool:
        """Whether there are lanes that the store must have before a task of theirs is stored."""
        return bool(self._new_lanes)

    def expire(self) -> None:
        """Forget the lanes when they are too old: the next task of each makes its lane new again."""
        if (now_mono := self._clock.monotonic()) - self._cached_since >= _MAX_AGE_S:
            self._lanes, self._cached_since = {}, now_mono

    def find_lane(self, body: TaskBody, subjects: tuple[Subject, ...], *, has_requirement: bool) -> Lane:
        """Return the lane of a task; `has_requirement` is whether the task says anything that placement looks at,
        beside its type."""
        # Nearly all tasks have no special requirements, and find their lane by four words.
        key: Hashable = (body.queue, body.project_id, body.priority, body.task_type)
        if has_requirement:
            key = (
                key,
                body.cluster,
                body.node_type,
                body.schedule_strategy,
                body.target_region,
                body.require_region,
                _freeze_mapping(body.min_resources),
                _freeze_mapping(body.capabilities),
                subjects,
                body.preemptible,
                tuple(body.categories),
                body.node_id,
            )
        lane = self._lanes.get(key)
        if lane is None:
            lane = Lane.with_id(body.queue, body.project_id or "", body.priority, _make_requirement(body, subjects))
            if len(self._lanes) >= _MAX_LANES:
                self._lanes.clear()
            self._lanes[key] = lane
            self._new_lanes[lane.id] = lane
        return lane

    async def store_new(self) -> None:
        """Make sure that the store has the rows of the new lanes."""
        # The lanes stay new until the store has them: a submission that comes meanwhile must not store tasks before
        # their rows.
        lanes = list(self._new_lanes.values())
        await self._store.ensure_lanes(lanes)
        for lane in lanes:
            self._new_lanes.pop(lane.id, None)


def _make_requirement(body: TaskBody, subjects: tuple[Subject, ...]) -> Requirement:
    return Requirement(
        body.task_type,
        body.cluster,
        body.node_type,
        body.schedule_strategy,
        body.target_region,
        body.require_region,
        canonical_capabilities(body.capabilities),
        round_resources(canonical_resources(body.min_resources)),
        subjects,
        body.preemptible,
        tuple(sorted(set(body.categories))),
        None if body.node_id is None else parse_id(body.node_id, "node", field="node_id"),
    )


def _freeze_mapping(values: Mapping[str, object]) -> Hashable:
    return tuple(sorted((name, tuple(value) if isinstance(value, list) else value) for name, value in values.items()))
