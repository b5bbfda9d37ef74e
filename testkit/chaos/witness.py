"""An executor that detects by itself whether its task runs twice at once.

Each execution is a process of its own and locks a file of its task while it works. The kernel releases the lock
however the process ends, so a lock that is taken means that another execution is alive: no clock is involved.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from pathlib import Path
from typing import Any

from crawlfleet.execution.sdk import TaskContext, executor

TASK_TYPE = "witness"
MET = "met"
_SCHEMA = {
    "type": "object",
    "properties": {"seconds": {"type": "number"}, "folder": {"type": "string"}},
    "required": ["seconds", "folder"],
}


@executor(TASK_TYPE, schema=_SCHEMA)
async def witness(context: TaskContext) -> Any:
    folder = Path(context.parameters["folder"])
    descriptor = os.open(folder / context.task_id, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(descriptor, 1_000, 0).decode()
            _note_meeting(folder, f"{time.time():.3f}\t{context.task_id}\t{context.execution_id}\t{other}\n")
        # The working directory identifies the node: each has its own data directory.
        os.pwrite(descriptor, f"{context.execution_id} in {Path.cwd()}".encode(), 0)
        await asyncio.sleep(float(context.parameters["seconds"]))
    finally:
        os.close(descriptor)
    return {"execution": context.execution_id}


def _note_meeting(folder: Path, line: str) -> None:
    with (folder / MET).open("a") as met:
        met.write(line)
