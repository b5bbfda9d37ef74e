"""Task type `echo`: returns its parameters, for tests and measurements of the rest of the system."""

from __future__ import annotations

from typing import Any

from crawlfleet.execution.sdk import ANYTHING, Executor, TaskContext


class Echo(Executor):
    task_type = "echo"
    schema = ANYTHING

    async def run(self, context: TaskContext) -> Any:
        return context.parameters
