"""One run of a server's program, below a supervisor that ends it when this process dies."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from testkit.servers import supervisor

READY_S = 60.0
STOP_S = 60.0


class ServerFailed(Exception):
    """A server of the test kit did not start, stop or answer; the message ends with its log."""


class ServerProcess:
    """The process of a server, with the processes it started."""

    def __init__(
        self, command: Sequence[str | Path], directory: Path, user: str | None, death_signal: signal.Signals
    ) -> None:
        self._log = directory / "server.log"
        with self._log.open("wb") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", supervisor.__file__, user or "-", str(int(death_signal)), directory, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # an interrupt from the keyboard goes to the tests, which then stop the server
            )
        assert self._supervisor.stdout
        pid = self._supervisor.stdout.readline()
        if not pid:
            self._reap()
            raise ServerFailed(f"{command[0]} was not started\n{self.log()}")
        self.pid = int(pid)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def is_running(self) -> bool:
        return self._supervisor.poll() is None

    def wait_until(self, answers: Callable[[], bool]) -> None:
        """Wait until `answers` is true; the end of the process, or too long a wait, is a failure."""
        deadline = time.monotonic() + READY_S
        while self.is_running():
            if answers():
                return
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"no answer within {READY_S:.0f} s\n{self.log()}")
            time.sleep(0.02)
        self._reap()
        raise ServerFailed(f"ended while starting\n{self.log()}")

    def stop(self, number: signal.Signals) -> None:
        """Send the server's own signal for "stop" and wait until all of it is gone."""
        processes = self._tree()
        supervisor.send(processes, signal.SIGCONT)
        supervisor.send(processes[:1], number)
        try:
            self._reap()
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(f"did not stop within {STOP_S:.0f} s\n{self.log()}") from None
        psutil.wait_procs(processes, timeout=STOP_S)

    def kill(self) -> None:
        """Send SIGKILL to the process and all it started."""
        processes = self._tree()
        supervisor.send(processes, signal.SIGKILL)
        self._reap()
        psutil.wait_procs(processes, timeout=STOP_S)

    def pause(self) -> None:
        """Pause, and return when all processes are stopped; one that starts or stops late gets the signal again."""
        deadline = time.monotonic() + STOP_S
        while moving := [process for process in self._tree() if not _is_still(process)]:
            supervisor.send(moving, signal.SIGSTOP)
            if time.monotonic() > deadline:
                raise ServerFailed(f"did not pause within {STOP_S:.0f} s: {moving}")
            time.sleep(0.001)

    def resume(self) -> None:
        supervisor.send(self._tree(), signal.SIGCONT)

    def _tree(self) -> list[psutil.Process]:
        return supervisor.tree(self.pid) if self.is_running() else []

    def _reap(self) -> None:
        self._supervisor.wait(STOP_S)
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe:
                pipe.close()


def _is_still(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
