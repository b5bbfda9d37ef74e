"""What Linux is asked for around child processes: to end with their parent, to keep descendants, to be bounded.

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
"""Programs reserve far more than they use: this is the second line behind the watched limit, for one huge grab."""
OPEN_FILES = 4_096


def end_with_parent(parent: int) -> None:
    """The kernel kills this process when the one that started it is gone."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have gone before it could be asked for.
    if os.getppid() != parent:
        os._exit(1)


def keep_descendants() -> None:
    """Descendants that lose their parent become children of this process, even those in a session of their own."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def keep_freed_memory() -> None:
    """A little of what is freed stays with the process.

    Every page is parsed into memory of its own and that is freed again; to have it from the kernel anew each time takes
    as long as the parsing.
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
    _lower(resource.RLIMIT_AS, memory_bytes * ADDRESS_SPACE_FACTOR + ADDRESS_SPACE_EXTRA_BYTES)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    try:
        # Should the machine run out of memory all the same, the kernel picks this process and not its agent.
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass


class Processes:
    """All processes of the machine, as of one look. One that forks at this moment may be missed: look again."""

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

    def below(self, root: int) -> list[int]:
        found: list[int] = []
        unread = [root]
        while unread:
            children = self._children.get(unread.pop(), [])
            found += children
            unread += children
        return found

    def memory_bytes(self, pids: list[int]) -> int:
        """Memory in use, pages that several of them share counted several times."""
        return sum(self._memory_bytes.get(pid, 0) for pid in pids)


def shared_out_memory_bytes(pids: list[int]) -> int:
    """Memory in use, shared pages shared out between those that use them. Much slower, for when it matters."""
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def kill_descendants() -> None:
    """Returns when this process has no child any more. For a process that keeps its descendants."""
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
    """The descendants of a process and then itself."""
    _freeze_and_kill(root)
    _signal(root, signal.SIGKILL)


def _freeze_and_kill(root: int) -> None:
    """All below `root`. They are stopped first: what does not run does not fork away."""
    frozen: set[int] = set()
    for _ in range(50):
        new = set(Processes().below(root)) - frozen
        if not new:
            break
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        frozen |= new
    for pid in frozen:
        _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _lower(which: int, wanted: int) -> None:
    _soft, hard = resource.getrlimit(which)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(which, (limit, limit))


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, int(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
