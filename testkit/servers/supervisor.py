"""The supervisor runs between a test process and a server, so that no server outlives its test process.

Run as a script: `supervisor.py <user> <death signal> <directory> <program> [argument...]`. It starts the program as
that user ("-" keeps ours), writes its pid to stdout and waits for the first of two things:

- the program ends: the supervisor ends too; the directory stays, since the server may be started again;
- stdin closes, which the kernel ensures however the test process died: the program and all it started are ended, and
  the directory is removed.

A parent-death signal alone would not do: it follows the death of a *thread*, does not reach the children of a paused
process, and PostgreSQL's children leave the process group. It is set for the one case left, the supervisor's own death.
"""

import os
import pwd
import select
import shutil
import signal
import subprocess
import sys

import psutil

from crawlfleet.execution.executors.outside.linux_processes import end_with_parent

GRACE_S = 5.0


def tree(pid: int) -> list[psutil.Process]:
    """Return the process and all below it; the root first, so that it is paused or killed before it starts another."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def send(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            pass


def end(processes: list[psutil.Process], number: signal.Signals) -> None:
    """Send the signal to the root once, so that it releases its shared memory; then kill all that is left."""
    send(processes, signal.SIGCONT)
    send(processes[:1], number)
    _, alive = psutil.wait_procs(processes, timeout=GRACE_S)
    send(alive, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=GRACE_S)


def main() -> None:
    user, death_signal, directory, *command = sys.argv[1:]
    supervisor = os.getpid()
    program = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        cwd=directory,
        user=None if user == "-" else user,
        group=None if user == "-" else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user == "-" else [],
        # Safe here, where there is one thread, as it would not be in the test process.
        preexec_fn=lambda: end_with_parent(supervisor),  # noqa: PLW1509
    )
    sys.stdout.write(f"{program.pid}\n")
    sys.stdout.flush()
    ended = os.pidfd_open(program.pid)
    readable, _, _ = select.select([sys.stdin, ended], [], [])
    if ended not in readable:
        end(tree(program.pid), signal.Signals(int(death_signal)))
        shutil.rmtree(directory, ignore_errors=True)
    program.wait()


if __name__ == "__main__":
    main()
