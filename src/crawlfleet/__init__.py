"""crawlfleet: a distributed crawler cluster manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Executor", "TaskContext", "TaskError", "__version__", "executor"]

if TYPE_CHECKING:
    from crawlfleet.execution.executors.sdk import Executor, TaskContext, TaskError, executor


def __getattr__(name: str) -> Any:
    """What users write executors with, loaded when it is asked for: every process imports this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crawlfleet.execution.executors import sdk

    return getattr(sdk, name)
