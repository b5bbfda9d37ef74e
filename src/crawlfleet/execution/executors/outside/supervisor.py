"""The supervisor between an agent and an isolated process, which ends the whole process tree of an execution.

    agent ── supervisor ── process of the execution ── whatever that starts
                 │
                 └ ends the whole tree when the process has ended, when the agent orders it (by closing its end of the
                   control socket), when the agent is gone, and when it is silent for as long as a lease lasts

It keeps all descendants as its own: daemons with a session of their own are found like any other child. It is the same
Python process that was started, from before anything else was loaded; the execution's process is its fork.
"""

from __future__ import annotations

import os
import select
import time
from typing import NoReturn

from crawlfleet.execution.executors.outside import linux_processes

SILENCE_S = 7.0
"""Longest silence of the agent: one that does not run cannot renew its lease, and its work must end before that."""


def fork_supervised(control: int, agent: int, others: list[int]) -> None:
    """Fork the process of the execution and return in it; the supervisor never returns, and closes the `others`."""
    if os.getppid() != agent:
        os._exit(1)
    linux_processes.keep_descendants()
    supervisor = os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(control)
        linux_processes.end_with_parent(supervisor)
        # A signal it sends to its group must not hit the supervisor.
        os.setsid()
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2, *others):
        os.dup2(nowhere, descriptor)
    _supervise(control, worker)


def _supervise(control: int, worker: int) -> NoReturn:
    status = _watch_worker(control, worker)
    linux_processes.kill_descendants()
    try:
        os.write(control, str(status).encode())
    except OSError:
        pass
    os._exit(0)


def _watch_worker(control: int, worker: int) -> int:
    """Wait for the end of the process; its wait status, or -1 when the supervisor has to end it."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(os.pidfd_open(worker), select.POLLIN)
    heard_at = time.monotonic()
    while True:
        ready = {descriptor for descriptor, _event in poll.poll(1_000)}
        if control in ready:
            if not _read_heartbeat(control):
                return -1
            heard_at = time.monotonic()
        if time.monotonic() - heard_at > SILENCE_S:
            return -1
        status = _reap_children(worker)
        if status is not None:
            return status


def _read_heartbeat(control: int) -> bool:
    try:
        return bool(os.read(control, 4_096))
    except OSError:
        return False


def _reap_children(worker: int) -> int | None:
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
