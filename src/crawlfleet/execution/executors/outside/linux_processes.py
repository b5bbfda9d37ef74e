"""Linux calls for child processes: death with the parent, adoption of descendants, resource limits, killing a tree.

Loaded by every process of a user's execution before anything else, so it imports next to nothing.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
KEPT_BYTES, MAPPED_BYTES = 16 << 20, 4 << 20
_PAGE_BYTES = resource.getpagesize()
ADDRESS_SPACE_FACTOR, ADDRESS_SPACE_EXTRA_BYTES = 4, 4 << 30
"""Programs reserve far more than they use: a second limit behind the watched one, against one huge allocation."""
MAX_OPEN_FILES = 4_096


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have gone before it could be asked for.
    if os.getppid() != parent:
        os._exit(1)


def keep_descendants() -> None:
    """Adopt descendants that lose their parent (child subreaper), even those in a session of their own."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def keep_freed_memory() -> None:
    """Let malloc keep some freed memory.

    Every page is parsed into memory of its own, which is freed again; to get it from the kernel each time takes as long
    as the parsing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # Other C libraries than glibc have none, and their own ways.
    if mallopt is not None:
        for option, value in (
            (_M_TRIM_THRESHOLD, KEPT_BYTES),
            (_M_TOP_PAD, KEPT_BYTES // 4),
            (_M_MMAP_THRESHOLD, MAPPED_BYTES),
        ):
            mallopt(option, value)


def limit_resources(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower_limit(resource.RLIMIT_AS, memory_bytes * ADDRESS_SPACE_FACTOR + ADDRESS_SPACE_EXTRA_BYTES)
    _lower_limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    try:
        # Should the machine run out of memory all the same, the kernel picks this process and not its agent.
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass


class ProcessTable:
    """All processes of the machine at one instant. A process that forks at that instant may be missed: read again."""

    def __init__(self) -> None:
        self._children: dict[int, list[int]] = {}
        self._memory_bytes: dict[int, int] = {}
        for name in os.listdir("/proc"):  # noqa: PTH208 - several times a second
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    # The second field is the program's name, in brackets, with anything in it.
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            self._children.setdefault(int(fields[1]), []).append(int(name))
            self._memory_bytes[int(name)] = int(fields[21]) * _PAGE_BYTES

    def descendants(self, root: int) -> list[int]:
        pids: list[int] = []
        unvisited = [root]
        while unvisited:
            children = self._children.get(unvisited.pop(), [])
            pids += children
            unvisited += children
        return pids

    def memory_bytes(self, pids: list[int]) -> int:
        """Memory in use (RSS); shared pages count several times."""
        return sum(self._memory_bytes.get(pid, 0) for pid in pids)


def proportional_memory_bytes(pids: list[int]) -> int:
    """Memory in use (PSS), shared pages divided between their users. Much slower, for the decision to kill."""
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def kill_descendants() -> None:
    """Kill all descendants; returns when this process has no child any more. For a child subreaper."""
    while True:
        _freeze_and_kill(os.getpid())
        for _ in range(20):
            try:
                pid, _status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                time.sleep(0.002)


def kill_tree(root: int) -> None:
    """Kill the descendants of a process, then the process itself."""
    _freeze_and_kill(root)
    _send_signal(root, signal.SIGKILL)


def _freeze_and_kill(root: int) -> None:
    """Kill all descendants of `root`. They are stopped first: a stopped process cannot fork."""
    frozen: set[int] = set()
    for _ in range(50):
        unfrozen = set(ProcessTable().descendants(root)) - frozen
        if not unfrozen:
            break
        for pid in unfrozen:
            _send_signal(pid, signal.SIGSTOP)
        frozen |= unfrozen
    for pid in frozen:
        _send_signal(pid, signal.SIGKILL)


def _send_signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _lower_limit(which: int, requested: int) -> None:
    _soft, hard = resource.getrlimit(which)
    limit = requested if hard == resource.RLIM_INFINITY else min(requested, hard)
    resource.setrlimit(which, (limit, limit))


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, int(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
