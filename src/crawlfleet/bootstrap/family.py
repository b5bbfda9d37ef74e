"""Child processes that do not outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Called by a child, first thing: the kernel ends it when the process that started it is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    # It may have died before it could be asked for.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
