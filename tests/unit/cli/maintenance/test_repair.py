"""The commands of repair, against a real master and on a data folder without one."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from typer.testing import CliRunner

from crawlfleet.cli.app import app
from crawlfleet.settings.master import MasterSettings
from tests.integration.bootstrap.maintenance.installations import fill
from tests.unit.cli.maintenance.conftest import ThreadedMaster


def run(*command: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["repair", *command])
    return result.exit_code, result.stdout


def test_a_sound_installation_needs_no_repair(master: ThreadedMaster) -> None:
    assert run("counters") == (0, "counters: all agree with the rows\n")
    assert run("results") == (
        0,
        "results: 0 of 0 finished tasks lack chunks\nresults: 0 files (0 B) belong to no task\n",
    )
    code, out = run("ready", "--json")
    assert (code, json.loads(out)) == (0, {"windows": 0, "lanes": 0})
    assert run("store", "--data-dir", str(master.settings.data_dir)) == (0, "store: sqlite, sound\n")


def test_wrong_counters_are_told_and_corrected(master: ThreadedMaster) -> None:
    waiting = {"task_type": "echo", "parameters": {}, "min_resources": {"nobody-has": 1}}
    master.run(lambda client: client.submit_batch([waiting] * 2))
    with closing(sqlite3.connect(master.settings.data_dir / "crawlfleet.db", isolation_level=None)) as file:
        lane = file.execute("SELECT id FROM lane").fetchone()[0]
        file.execute("INSERT INTO lane_counter (lane, status, n) VALUES (?, 13, 1)", (lane,))
    code, out = run("counters", "--dry-run")
    assert code == 1
    assert out.splitlines()[1].split() == ["default", "5", "echo", "cancelled", "+1"]
    assert out.splitlines()[2].startswith("counters: 1 wrong by 1 tasks in all; not corrected")
    assert run("counters")[1].endswith("corrected\n")
    assert run("counters", "--dry-run")[0] == 0


def test_a_store_without_a_master_is_checked(tmp_path: Path) -> None:
    asyncio.run(fill(MasterSettings(data_dir=tmp_path, port=0), 1))
    with closing(sqlite3.connect(tmp_path / "crawlfleet.db", isolation_level=None)) as file:
        file.execute("DELETE FROM task")
    code, out = run("store", "--data-dir", str(tmp_path))
    assert (code, out) == (
        1,
        "contradiction: 1 open rows without their task\nstore: sqlite, NOT sound: see restore\n",
    )
    code, out = run("store", "--data-dir", str(tmp_path), "--json")
    assert (code, json.loads(out)["contradictions"]) == (1, {"open rows without their task": 1})
