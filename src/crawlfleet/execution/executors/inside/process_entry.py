"""The start of an executor process.

    python -m crawlfleet.execution.executors.inside.process_entry shared FRAMES AGENT
    python -m crawlfleet.execution.executors.inside.process_entry alone  FRAMES AGENT CONTROL MEMORY_BYTES

A shared process serves many executions of built-in types at once until its agent is gone; an isolated one (`alone`)
serves one execution, below a supervisor, and ends with it. FRAMES and CONTROL are descriptors, AGENT is a process id.
"""

from __future__ import annotations

import gc
import sys

from crawlfleet.execution.executors.outside import linux_processes
from crawlfleet.execution.executors.outside.supervisor import fork_supervised


def run_shared(frames: int, agent: int) -> None:
    linux_processes.end_with_parent(agent)
    linux_processes.keep_freed_memory()
    import uvloop

    from crawlfleet.execution.executors.inside import process_loop

    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    uvloop.run(process_loop.serve_agent(frames, is_isolated=False))


def run_isolated(frames: int, agent: int, control: int, memory_bytes: int) -> None:
    # Before anything large is loaded: the supervisor stays small, and loading happens below it.
    fork_supervised(control, agent, others=[frames])
    linux_processes.limit_resources(memory_bytes)
    import asyncio

    from crawlfleet.execution.executors.inside import process_loop

    asyncio.run(process_loop.serve_agent(frames, is_isolated=True))


if __name__ == "__main__":
    mode, *numbers = sys.argv[1:]
    (run_isolated if mode == "alone" else run_shared)(*map(int, numbers))
