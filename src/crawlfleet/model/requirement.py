"""Requirements of tasks, interned into few classes.

A *requirement* is everything placement looks at; tasks with equal requirements share one, so that placement works per
class and not per task. Its id is a hash of its content, so that every master gives the same one the same id.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from crawlfleet.model.evidence import Subject
from crawlfleet.model.ids import NodeId

RequirementId = int
Capability = float | tuple[str, ...]
"""Value of a capability: a number, or a set of words."""

STRATEGIES = (
    "anti_crawling",
    "content_based",
    "geo_location",
    "largest",
    "least_loaded",
    "least_tasks",
    "random",
    "round_robin",
    "weighted",
)
"""Names of the built-in placement strategies, as settings and requests use them. `scheduling.placement.strategies`
holds the strategy of each name."""
DEFAULT_STRATEGY = "least_loaded"

_ALIASES = {"cpu_cores": ("cpu", 1.0), "memory_gb": ("memory_mb", 1024.0)}
_LATER = {"subjects", "preemptible", "categories", "node"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """Everything of a task that placement looks at."""

    task_type: str
    cluster: str | None = None
    node_type: str | None = None
    strategy: str | None = None
    target_region: str | None = None
    """Region that the task prefers."""
    require_region: bool = False
    """Whether only nodes of the target region are feasible."""
    capabilities: tuple[tuple[str, Capability], ...] = ()
    resources: tuple[tuple[str, float], ...] = ()
    subjects: tuple[Subject, ...] = ()
    """Subjects of the work; only for strategies that use them, as every new subject is a class of its own."""
    preemptible: bool = False
    """Whether the task may be stopped, at no cost, so that a more important one gets its slot; this requires nothing of
    a node."""
    categories: tuple[str, ...] = ()
    """Categories of the task; a node that names categories gets only tasks of one of these."""
    node: NodeId | None = None
    """The only node that may run the task."""

    @property
    def id(self) -> RequirementId:
        # Without the fields that were added later the id is the one it had before: stored lanes stay what they are.
        said = asdict(self)
        return content_id({name: value for name, value in said.items() if value or name not in _LATER})


def canonical_resources(asked: Mapping[str, float]) -> dict[str, float]:
    """Return resources under their one name: `cpu_cores` is `cpu`, `memory_gb` is 1024 `memory_mb`."""
    resources: dict[str, float] = {}
    for name, amount in asked.items():
        canonical, factor = _ALIASES.get(name, (name, 1.0))
        resources[canonical] = resources.get(canonical, 0.0) + amount * factor
    return resources


def round_resources(resources: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Round amounts up, so that classes stay few and a reservation is never less than what was asked."""
    return tuple(sorted((name, _round_up(name, amount)) for name, amount in resources.items() if amount > 0))


def canonical_capabilities(asked: Mapping[str, Any]) -> tuple[tuple[str, Capability], ...]:
    """Normalize capabilities: a number requires at least that much, a list (or one word) a superset; true is 1."""
    return tuple(sorted((name, _normalise_capability(value)) for name, value in asked.items()))


def _normalise_capability(value: float | str | Sequence[str]) -> Capability:
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


def content_id(content: object) -> int:
    """Return the hash of the content: the same on every master."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
