"""The start of an executor process.

    python -m crawlfleet.execution.executors.child shared FRAMES AGENT
    python -m crawlfleet.execution.executors.child alone  FRAMES AGENT CONTROL MEMORY_BYTES

A shared one serves many executions of built-in types at once until its agent is gone; one that is alone serves one
execution, below a supervisor, and ends with it. FRAMES and CONTROL are descriptors, AGENT is a process id.
"""

from __future__ import annotations

import gc
import sys

from crawlfleet.execution.executors import kernel
from crawlfleet.execution.executors.supervise import fork_supervised


def run_shared(frames: int, agent: int) -> None:
    kernel.end_with_parent(agent)
    kernel.keep_freed_memory()
    import uvloop

    from crawlfleet.execution.executors import host

    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    uvloop.run(host.serve(frames, is_alone=False))


def run_alone(frames: int, agent: int, control: int, memory_bytes: int) -> None:
    # Before anything large is loaded: the supervisor stays small, and loading happens below it.
    fork_supervised(control, agent, others=[frames])
    kernel.limit_resources(memory_bytes)
    import asyncio

    from crawlfleet.execution.executors import host

    asyncio.run(host.serve(frames, is_alone=True))


if __name__ == "__main__":
    mode, *numbers = sys.argv[1:]
    (run_alone if mode == "alone" else run_shared)(*map(int, numbers))
