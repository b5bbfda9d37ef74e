"""Placement filters. Each is a function of one node and one ask that returns a stable refusal word, or None.

There are three kinds, in the order in which they are named to people: requirements of the class that the node does not
meet (`CLASS_FILTERS`), states that keep any task off the node (`NODE_FILTERS`), and what is only full just now
(`FULL_FILTERS`). A word may end in `:` and the capability or resource it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlfleet.model.limits import PRIORITY_MIN
from crawlfleet.model.node import ANY_TASK, ANY_TYPE, Measurement, Node, PullFilter
from crawlfleet.model.requirement import Capability, Requirement
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus

CATEGORIES = "categories"
MEMORY_EXHAUSTED = 0.95
"""Share of a node's memory in use at which it gets nothing more, whatever was reserved."""

# Sums of fractions such as 0.1 are a little off; a whole number of tasks must not fail by that little.
_ROUNDING = 1e-9
_NEARLY = 1 - _ROUNDING


@dataclass(slots=True, eq=False)
class NodeState:
    """The state of a node during one pass: the caller builds it, the placer deducts from it."""

    node: Node
    cluster_status: ClusterStatus = ClusterStatus.ACTIVE
    cluster_project: str | None = None
    """Project for which the node's cluster is reserved."""
    held: int = 0
    reserved: dict[str, float] = field(default_factory=dict)
    measurement: Measurement | None = None
    """Newest measurement; if None, the one in the node's record is used."""
    slots: int = field(init=False)
    declared: dict[str, float] = field(init=False)
    is_shared: bool = field(init=False, default=False)
    """Whether other nodes of its machine have the same `declared` and `reserved`."""
    strain: float = field(init=False, default=0.0)
    """Surcharge of the strategies by load, beside what the node holds."""
    is_on_trial: bool = False
    """Whether it is unhealthy by its faults, and has its `slots` to show that it works again."""
    pull_filter: PullFilter = ANY_TASK
    """Conditions of the node's newest pull, for a node that only pulls."""
    is_pulling: bool = False
    """Whether the node has an open pull; without one, a node that only pulls gets nothing."""
    seat: int = field(init=False, default=-1)
    """Number of the node in the placer; -1 while nothing may be placed there."""

    def __post_init__(self) -> None:
        self.slots = 0 if self.node.description.is_pull_only and not self.is_pulling else self.node.slots
        self.declared = dict(self.node.description.resources)
        if self.measurement is None:
            self.measurement = self.node.measurement


class Ask(NamedTuple):
    """What any number of tasks of one class and project ask of a node."""

    requirement: Requirement
    project: str
    overcommit: float = 1.0
    """Factor by which a node's declared resources may be promised. Slots are never promised twice."""
    priority: int = PRIORITY_MIN
    """Priority of the tasks; the lowest where it is not known."""


Filter = Callable[[NodeState, Ask], str | None]


def is_other_node(state: NodeState, ask: Ask) -> str | None:
    """Whether the task is for another node. It looks at the single node, not at its node class."""
    wanted = ask.requirement.node
    return None if wanted is None or wanted == state.node.id else "wrong_node"


def lacks_task_type(state: NodeState, ask: Ask) -> str | None:
    description = state.node.description
    if ask.requirement.task_type in description.task_types:
        return None
    return None if description.is_pull_only and ANY_TYPE in description.task_types else "wrong_task_type"


def is_other_cluster(state: NodeState, ask: Ask) -> str | None:
    wanted = ask.requirement.cluster
    return None if wanted is None or wanted == state.node.description.cluster else "wrong_cluster"


def is_reserved(state: NodeState, ask: Ask) -> str | None:
    return None if state.cluster_project is None or state.cluster_project == ask.project else "cluster_reserved"


def is_other_node_type(state: NodeState, ask: Ask) -> str | None:
    wanted = ask.requirement.node_type
    return None if wanted is None or wanted == state.node.description.node_type else "wrong_node_type"


def lacks_capability(state: NodeState, ask: Ask) -> str | None:
    if not ask.requirement.capabilities:
        return None
    offered = dict(state.node.description.capabilities)
    for name, wanted in ask.requirement.capabilities:
        if refusal := _missing(name, wanted, offered.get(name)):
            return refusal
    return None


def _missing(name: str, wanted: Capability, offered: Capability | None) -> str | None:
    if not wanted:
        return None  # zero (or false) and an empty list require nothing
    if not offered:
        return f"lacks:{name}"
    if isinstance(wanted, tuple):
        words = offered if isinstance(offered, tuple) else ()
        return next((f"lacks:{name}/{word}" for word in wanted if word not in words), None)
    if isinstance(offered, tuple):
        return f"lacks:{name}"
    return None if offered >= wanted else f"too_little:{name}"


def is_other_category(state: NodeState, ask: Ask) -> str | None:
    """Whether the node serves other categories only: a node that names categories gets tasks of these alone."""
    for name, served in state.node.description.capabilities:
        if name == CATEGORIES and isinstance(served, tuple):
            return None if any(category in served for category in ask.requirement.categories) else "wrong_category"
    return None


def is_too_small(state: NodeState, ask: Ask) -> str | None:
    """Whether the node, even empty, could not hold one such task."""
    for name, amount in ask.requirement.resources:
        if state.declared.get(name, 0.0) * ask.overcommit < amount * _NEARLY:
            return f"too_small:{name}"
    return None


def is_other_region(state: NodeState, ask: Ask) -> str | None:
    requirement = ask.requirement
    if not requirement.require_region or requirement.target_region is None:
        return None
    return None if requirement.target_region == state.node.description.region else "wrong_region"


def is_not_pulled(state: NodeState, ask: Ask) -> str | None:
    """Whether the node's pull is for other tasks."""
    wanted, requirement = state.pull_filter, ask.requirement
    if wanted == ANY_TASK:
        return None
    is_wanted = (
        ask.priority <= wanted.max_priority
        and (not wanted.task_types or requirement.task_type in wanted.task_types)
        and (not wanted.categories or any(category in wanted.categories for category in requirement.categories))
    )
    return None if is_wanted else "not_pulled"


def is_cluster_inactive(state: NodeState, _ask: Ask) -> str | None:
    return None if state.cluster_status is ClusterStatus.ACTIVE else f"cluster_{state.cluster_status.word}"


def is_not_online(state: NodeState, _ask: Ask) -> str | None:
    if state.node.is_departing:
        return "node_leaving"
    return None if state.node.status is NodeStatus.ONLINE else f"node_{state.node.status.word}"


def has_no_session(state: NodeState, _ask: Ask) -> str | None:
    return None if state.node.is_session_open else "no_session"


def is_unhealthy(state: NodeState, _ask: Ask) -> str | None:
    return "unhealthy" if state.node.health is Health.UNHEALTHY and not state.is_on_trial else None


def has_no_pull(state: NodeState, _ask: Ask) -> str | None:
    return "no_pull" if state.node.description.is_pull_only and not state.is_pulling else None


def has_no_slot(state: NodeState, _ask: Ask) -> str | None:
    if state.held < state.slots:
        return None
    return "on_trial" if state.is_on_trial else "no_slot"


def has_no_room(state: NodeState, ask: Ask) -> str | None:
    declared, reserved, overcommit = state.declared, state.reserved, ask.overcommit
    for name, amount in ask.requirement.resources:
        if declared.get(name, 0.0) * overcommit - reserved.get(name, 0.0) < amount * _NEARLY:
            return f"no_room:{name}"
    return None


def is_memory_exhausted(state: NodeState, _ask: Ask) -> str | None:
    return "memory_exhausted" if state.measurement and state.measurement.memory >= MEMORY_EXHAUSTED else None


CLASS_FILTERS: tuple[Filter, ...] = (
    lacks_task_type,
    is_other_cluster,
    is_reserved,
    is_other_node_type,
    lacks_capability,
    is_other_category,
    is_too_small,
    is_other_region,
)
"""Filters that look only at what the nodes of a node class have in common (see `class_key` in node_classes.py)."""
REQUIREMENT_FILTERS: tuple[Filter, ...] = (is_other_node, *CLASS_FILTERS)
"""All filters that look at what a task requires."""
NODE_FILTERS: tuple[Filter, ...] = (is_cluster_inactive, is_not_online, has_no_session, is_unhealthy)
FULL_FILTERS: tuple[Filter, ...] = (has_no_pull, is_not_pulled, has_no_slot, has_no_room, is_memory_exhausted)

_FULL_WORDS = ("no_pull", "not_pulled", "no_slot", "on_trial", "no_room", "memory_exhausted")


def is_full_word(refusal: str) -> bool:
    """Whether a refusal means that the node is suitable but full."""
    return refusal.partition(":")[0] in _FULL_WORDS


def first_refusal(state: NodeState, ask: Ask) -> str | None:
    for filters in (REQUIREMENT_FILTERS, NODE_FILTERS, FULL_FILTERS):
        for refuses in filters:
            if refusal := refuses(state, ask):
                return refusal
    return None


def is_suitable(state: NodeState, ask: Ask) -> bool:
    """Whether the node is suitable for such tasks, be there room now or not."""
    refusal = first_refusal(state, ask)
    return refusal is None or is_full_word(refusal)


def count_fitting(state: NodeState, ask: Ask) -> int:
    """How many tasks of the class the node has slots and resources for."""
    fitting: float = state.slots - state.held
    for name, amount in ask.requirement.resources:
        left = state.declared.get(name, 0.0) * ask.overcommit - state.reserved.get(name, 0.0)
        fitting = min(fitting, left / amount + _ROUNDING)
    return max(0, int(fitting))
