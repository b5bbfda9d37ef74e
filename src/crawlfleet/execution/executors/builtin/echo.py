"""Gives its parameters back: for tests and measurements of everything around it."""

from __future__ import annotations

from typing import Any

from crawlfleet.execution.sdk import ANYTHING, Executor, TaskContext


class Echo(Executor):
    task_type = "echo"
    schema = ANYTHING

    async def run(self, context: TaskContext) -> Any:
        return context.parameters
