"""crawlfleet: a distributed crawler cluster manager."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crawlfleet.version import __version__

__all__ = [
    "Candidates",
    "Executor",
    "NodeState",
    "Strategy",
    "TaskContext",
    "TaskError",
    "TryLater",
    "__version__",
    "executor",
]

if TYPE_CHECKING:
    from crawlfleet.execution.sdk import Executor, TaskContext, TaskError, TryLater, executor
    from crawlfleet.scheduling.placement.filters import NodeState
    from crawlfleet.scheduling.placement.strategies import Candidates, Strategy

_HOMES = {
    "Candidates": "crawlfleet.scheduling.placement.strategies",
    "NodeState": "crawlfleet.scheduling.placement.filters",
    "Strategy": "crawlfleet.scheduling.placement.strategies",
}


def __getattr__(name: str) -> Any:
    """What users write executors and strategies with, loaded when it is asked for: every process imports this."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "crawlfleet.execution.sdk")), name)
