"""`python -m crawlfleet.bootstrap.agent_child` runs an agent as a child process of a standalone master.

The child reads its order from standard input, as JSON: a command line can be read by every user of the machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import uvloop

from crawlfleet.bootstrap.worker import WorkerOptions, run_worker
from crawlfleet.execution.executors.outside.linux_processes import end_with_parent
from crawlfleet.observe.logs import configure_logs


class ChildOrder(msgspec.Struct):
    parent: int
    log_level: str
    log_format: str
    options: WorkerOptions
    log_file: Path | None = None


def _decode_path(kind: type, value: object) -> object:
    if kind is Path:
        return Path(str(value))
    raise NotImplementedError(kind)


def main() -> int:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=ChildOrder, dec_hook=_decode_path)
    end_with_parent(order.parent)
    # Ctrl-C in a terminal reaches the whole process group; the parent decides when its agents leave.
    os.setsid()
    configure_logs(order.log_level, order.log_format, order.log_file)
    return uvloop.run(run_worker(order.options))


if __name__ == "__main__":
    sys.exit(main())
