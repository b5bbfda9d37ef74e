"""`crawlfleet submit-task`: the queue tool's way to submit a task."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.work import task


def add_to(app: typer.Typer) -> None:
    api_command(
        app, "submit-task", """crawlfleet submit-task --task-type echo --params '{"hello": "world"}' --priority 7"""
    )(submit_task)


def submit_task(
    call: Call,
    task_type: Annotated[str, typer.Option("--task-type", help="What to run.")],
    params: task.ParamsOption,
    priority: task.PriorityOption = "5",
) -> None:
    """Submit a task: the same as crawlfleet task submit."""
    task.submit_task(call, task_type=task_type, params=params, priority=priority)
