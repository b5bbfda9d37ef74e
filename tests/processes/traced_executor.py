"""A user's executor that shows the context of its trace, and what else of tracing it can see."""

from __future__ import annotations

import os
from typing import Any

from crawlfleet import TaskContext, executor


@executor("show_trace")
async def show_trace(_context: TaskContext) -> dict[str, Any]:
    return {
        "traceparent": os.environ.get("TRACEPARENT"),
        "others": sorted(name for name in os.environ if name.startswith("OTEL")),
    }
