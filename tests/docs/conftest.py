"""A real installation, as the documentation starts it, and the demo shop beside it: one of each for all tests here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.paths import ROOT

EXAMPLES = ROOT / "examples"
PATIENCE_S = 60.0
# What the person who runs the tests has set for their own installation is not for this one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CRAWLFLEET_")}


@dataclass(frozen=True, slots=True)
class Installation:
    url: str
    data_dir: Path
    log: Path

    @property
    def token(self) -> str:
        return (self.data_dir / "admin.token").read_text(encoding="utf-8").strip()

    @property
    def environment(self) -> dict[str, str]:
        return ENVIRONMENT | {"CRAWLFLEET_DATA_DIR": str(self.data_dir), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *command: str | Path, folder: Path = EXAMPLES, env: dict[str, str] | None = None) -> str:
        """What a command prints, which must succeed."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=self.environment | (env or {}),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.log.read_text(encoding='utf-8')}"
        return done.stdout


@contextmanager
def _running(log: Path, *arguments: str, folder: Path = EXAMPLES, env: dict[str, str] | None = None) -> Iterator[str]:
    """The address that a program prints first."""
    environment = ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1"} | (env or {})
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _until_ready(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise AssertionError(f"{url} is not ready")


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("docs")
    data_dir, log = folder / "fleet", folder / "standalone.log"
    started = _running(
        log,
        "crawlfleet.cli",
        "standalone",
        "--data-dir",
        str(data_dir),
        "--port",
        "0",
        "--nodes",
        "2",
        "--slots",
        "4",
        "--executors",
        "my_executors",
        "--allow-host",
        "127.0.0.1",
    )
    with started as url:
        assert url, log.read_text(encoding="utf-8")
        _until_ready(url)
        yield Installation(url, data_dir, log)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("shop") / "shop.log"
    with _running(log, "crawlfleet.demo_shop", "--port", "0", "--products", "60") as url:
        yield url
