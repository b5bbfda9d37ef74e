"""S3 for tests, simulated by moto: its server is Python and runs from our own environment."""

import signal
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from testkit.servers.server import HOST, Server

ANSWER_S = 5.0


class S3Server(Server):
    """One S3 on 127.0.0.1 that keeps everything in memory: it may be paused, but a restart empties it."""

    name = "s3"
    death_signal = signal.SIGKILL

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment for its clients. It accepts any keys; without keys a client would look for some elsewhere."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    def create_bucket(self, name: str) -> str:
        self._ask("PUT", f"/{name}")
        return f"s3://{name}"

    def believe_keys(self, is_believing: bool) -> None:
        """Set whether it accepts any keys, or only those of users, of which there are none."""
        self._ask("POST", "/moto-api/reset-auth", b"inf" if is_believing else b"0")

    def _user(self) -> str | None:
        # Another user may not be able to read the environment, and this server needs no change of user.
        return None

    def _prepare(self) -> None:
        pass

    def _command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self.port)]

    def _answers(self) -> bool:
        try:
            self._ask("GET", "/moto-api/")
        except OSError:
            return False
        return True

    def _ask(self, method: str, path: str, body: bytes | None = None) -> None:
        # Without a type the body would be taken for a form, and not be found.
        request = urllib.request.Request(
            f"{self.url}{path}", data=body, method=method, headers={"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER_S):
            pass
