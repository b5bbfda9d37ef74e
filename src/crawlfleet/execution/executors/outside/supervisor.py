"""Stands between an agent and the process of one execution, so that nothing of it stays behind, whatever it does.

    agent ── supervisor ── process of the execution ── whatever that starts
                 │
                 └ ends the whole tree when the process has ended, when the agent says so (by closing its end of the
                   control socket), when the agent is gone, and when it is silent for as long as a lease lasts

It keeps all descendants as its own: daemons with a session of their own are found like any other child. It is the same
Python process that was started, from before anything else was loaded; the execution's process is its fork.
"""

from __future__ import annotations

import os
import select
import time
from typing import NoReturn

from crawlfleet.execution.executors.outside import linux

SILENCE_S = 7.0
"""An agent that does not run cannot renew its lease: its work ends before somebody else gets it."""


def fork_supervised(control: int, agent: int, others: list[int]) -> None:
    """Returns in the process of the execution; the supervisor never returns. `others` are descriptors it closes."""
    if os.getppid() != agent:
        os._exit(1)
    linux.keep_descendants()
    supervisor = os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(control)
        linux.end_with_parent(supervisor)
        # A signal it sends to its group must not hit the supervisor.
        os.setsid()
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2, *others):
        os.dup2(nowhere, descriptor)
    _supervise(control, worker)


def _supervise(control: int, worker: int) -> NoReturn:
    status = _watch(control, worker)
    linux.kill_descendants()
    try:
        os.write(control, str(status).encode())
    except OSError:
        pass
    os._exit(0)


def _watch(control: int, worker: int) -> int:
    """The wait status of the process, when it ended by itself; -1 when it is to be ended."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(os.pidfd_open(worker), select.POLLIN)
    heard_at = time.monotonic()
    while True:
        ready = {descriptor for descriptor, _event in poll.poll(1_000)}
        if control in ready:
            if not _hear(control):
                return -1
            heard_at = time.monotonic()
        if time.monotonic() - heard_at > SILENCE_S:
            return -1
        status = _reap(worker)
        if status is not None:
            return status


def _hear(control: int) -> bool:
    try:
        return bool(os.read(control, 4_096))
    except OSError:
        return False


def _reap(worker: int) -> int | None:
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == worker:
            status = ended
