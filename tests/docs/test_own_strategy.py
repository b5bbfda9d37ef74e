"""The example of a strategy of one's own, installed beside real masters."""

from __future__ import annotations

import os
import time
import tomllib
from pathlib import Path

import pytest

from crawlfleet.client import Client
from tests.docs.conftest import EXAMPLES, PATIENCE_S, Installation, _running, _until_ready

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PACKAGE = EXAMPLES / "own_strategy"


def installed(folder: Path) -> str:
    """The path on which it is found, as pip would leave it."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / "cheapest_strategy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cheapest-strategy\nVersion: 1.0\n", encoding="utf-8")
    points = project["entry-points"]["crawlfleet.strategies"]
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[crawlfleet.strategies]\n{lines}", encoding="utf-8")
    return os.pathsep.join([str(folder), str(PACKAGE), os.environ.get("PYTHONPATH", "")])


def test_own_strategy(tmp_path: Path) -> None:
    data_dir, log = tmp_path / "fleet", tmp_path / "standalone.log"
    env = {"PYTHONPATH": installed(tmp_path), "CRAWLFLEET_STRATEGY": "cheapest"}
    started = _running(
        log, "crawlfleet.cli", "standalone", "--data-dir", str(data_dir), "--port", "0", "--nodes", "1", env=env
    )
    with started as url:
        assert url, log.read_text(encoding="utf-8")
        _until_ready(url)
        with Client(url, Installation(url, data_dir, log).token) as client:
            task = client.submit("sleep", {"seconds": 30})
            deadline = time.monotonic() + PATIENCE_S
            while (why := client.why(task.id)).data["cause"] != "processing":
                assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
                time.sleep(0.05)
            assert why.sentence.endswith("; cheapest: 1 an hour, 1 of 4 slots in use")
            client.cancel(task.id)
