"""The base of the servers of the test kit: start on a free port, stop, start again, clean up at the end."""

import random
import shutil
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from testkit.servers.process import ServerFailed, ServerProcess
from testkit.servers.unprivileged import new_directory, server_user

HOST = "127.0.0.1"
# Below the range from which Linux takes the ports of outgoing connections: a server that is down for a restart finds
# its port free again.
PORTS = range(20_000, 32_000)
ATTEMPTS = 5


class Server(ABC):
    """A server from its start (in the constructor) to `close`.

    All methods block. In a coroutine whose loop must go on, call them through `asyncio.to_thread`.
    """

    name: str
    death_signal: signal.Signals
    """Signal by which the supervisor ends the server when the test process dies."""

    def __init__(self, base: Path | None = None) -> None:
        self.directory = new_directory(f"crawlfleet-{self.name}-", base)
        self._process: ServerProcess | None = None
        try:
            self._prepare()
            self._start_on_free_port()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _prepare(self) -> None:
        """Prepare the data, once, before the first start."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]: ...

    def _user(self) -> str | None:
        """Return the user it runs as; None for the current user."""
        return server_user()

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether this very server (not another one on the same port) takes work."""

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed(f"{self.name} is not running")
        return self._process.pid

    def start(self) -> None:
        """Start again, on the same port and data, after a stop or kill."""
        if self._process is not None:
            raise ServerFailed(f"{self.name} is running already")
        process = ServerProcess(self._command(), self.directory, self._user(), self.death_signal)
        self._process = process
        try:
            process.wait_until(self._answers)
        except ServerFailed:
            self._process = None
            raise

    def kill(self) -> None:
        """Send SIGKILL to all its processes, as if the machine had lost its power."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def pause(self) -> None:
        """Freeze it with all its children: connections stay open and nothing answers."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        if self._process is not None:
            self._process.resume()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _stop(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop(number)

    def _start_on_free_port(self) -> None:
        for attempt in range(ATTEMPTS):
            self.port = free_port()
            try:
                return self.start()
            except ServerFailed as failure:
                is_race = "Address already in use" in str(failure)
                if not is_race or attempt == ATTEMPTS - 1:
                    raise
        return None


def free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
