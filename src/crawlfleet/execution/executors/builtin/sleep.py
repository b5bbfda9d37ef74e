"""Task type `sleep`: does nothing for a while, and stops at once when it is recalled."""

from __future__ import annotations

import asyncio
from typing import Any

from crawlfleet.execution.sdk import Executor, TaskContext


class Sleep(Executor):
    task_type = "sleep"
    schema = {  # noqa: RUF012 - declared as a constant of the class by its base
        "type": "object",
        "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 86_400}},
        "required": ["seconds"],
        "additionalProperties": False,
    }

    async def run(self, context: TaskContext) -> Any:
        seconds = float(context.parameters["seconds"])
        await asyncio.sleep(seconds)
        return {"slept_s": seconds}
