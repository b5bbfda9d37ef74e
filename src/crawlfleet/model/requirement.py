"""What a task asks of a node, interned into few classes, and the lanes ready tasks stand in.

A *requirement* is everything placement looks at; tasks that ask for the same share one, so that placement works per
class and not per task. A *lane* is a queue of tasks that are alike to the scheduler: same queue, requirement, project
and priority. Both are named by a hash of what they say, so that every master gives the same one the same name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from crawlfleet.model.evidence import Subject
from crawlfleet.model.limits import PREEMPTIBLE_RANK_MAX, PRIORITY_MAX

LaneId = int
RequirementId = int
Capability = float | tuple[str, ...]

_ALIASES = {"cpu_cores": ("cpu", 1.0), "memory_gb": ("memory_mb", 1024.0)}
_LATER = {"subjects", "preemptible", "categories"}


@dataclass(frozen=True, slots=True)
class Requirement:
    task_type: str
    cluster: str | None = None
    node_type: str | None = None
    strategy: str | None = None
    target_region: str | None = None
    require_region: bool = False
    capabilities: tuple[tuple[str, Capability], ...] = ()
    resources: tuple[tuple[str, float], ...] = ()
    subjects: tuple[Subject, ...] = ()
    """What the work is about; only for strategies that look at it, as every new subject is a class of its own."""
    preemptible: bool = False
    """Asks nothing of a node: it may be stopped, at no cost, to make room for what is more important."""
    categories: tuple[str, ...] = ()

    @property
    def id(self) -> RequirementId:
        # Without what came later the name is the one it had before: stored lanes stay what they are.
        said = asdict(self)
        return _name_of({name: value for name, value in said.items() if value or name not in _LATER})


@dataclass(frozen=True, slots=True)
class Lane:
    id: LaneId
    queue: str
    project: str
    priority: int
    requirement_id: RequirementId
    requirement: Requirement

    @staticmethod
    def of(queue: str, project: str, priority: int, requirement: Requirement) -> Lane:
        requirement_id = requirement.id
        name = _name_of([queue, project, priority, requirement_id])
        return Lane(name, queue, project, priority, requirement_id, requirement)

    @property
    def highest_rank(self) -> int:
        """How far age lifts its tasks. What says of itself that it can wait never comes level with the most urgent:
        stopped for them, it would be the older one and get its place back before they do."""
        return max(self.priority, PREEMPTIBLE_RANK_MAX) if self.requirement.preemptible else PRIORITY_MAX

    def at_priority(self, priority: int) -> Lane:
        return Lane.of(self.queue, self.project, priority, self.requirement)


def canonical_resources(asked: Mapping[str, float]) -> dict[str, float]:
    """Resources under their one name: `cpu_cores` is `cpu`, `memory_gb` is 1024 `memory_mb`."""
    resources: dict[str, float] = {}
    for name, amount in asked.items():
        canonical, factor = _ALIASES.get(name, (name, 1.0))
        resources[canonical] = resources.get(canonical, 0.0) + amount * factor
    return resources


def bucketed(resources: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Rounded up, so that classes stay few and a reservation never falls short of what was asked."""
    return tuple(sorted((name, _round_up(name, amount)) for name, amount in resources.items() if amount > 0))


def canonical_capabilities(asked: Mapping[str, Any]) -> tuple[tuple[str, Capability], ...]:
    """A number asks for at least that much, a list (or one word) for a superset; true is 1."""
    return tuple(sorted((name, _capability(value)) for name, value in asked.items()))


def _capability(value: float | str | Sequence[str]) -> Capability:
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str):
        return (value,)
    return tuple(sorted(set(value)))


def _round_up(name: str, amount: float) -> float:
    step = 64.0 if name == "memory_mb" else 0.25
    if name == "memory_mb" and amount > 1024:
        step = 256.0
    return max(1, math.ceil(amount / step - 1e-9)) * step


def _name_of(content: object) -> int:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
