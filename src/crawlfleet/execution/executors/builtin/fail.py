"""Task type `fail`: fails the first `times` attempts with an error of the given class, then succeeds."""

from __future__ import annotations

from typing import Any

from crawlfleet.execution.sdk import ERRORS, Executor, TaskContext, TaskError


class Fail(Executor):
    task_type = "fail"
    schema = {  # noqa: RUF012 - declared as a constant of the class by its base
        "type": "object",
        "properties": {
            "times": {"type": "integer", "minimum": 0, "maximum": 1_000_000},
            "class": {"enum": list(ERRORS)},
            "permanent": {"type": "boolean"},
            "message": {"type": "string", "maxLength": 1_000},
        },
        "additionalProperties": False,
    }

    async def run(self, context: TaskContext) -> Any:
        parameters = context.parameters
        times = int(parameters.get("times", 1))
        if context.attempt < times:
            message = parameters.get("message", f"failed as asked, {context.attempt + 1} of {times} times")
            raise TaskError(
                message, error=parameters.get("class", "internal"), permanent=bool(parameters.get("permanent"))
            )
        return {"failed": times}
