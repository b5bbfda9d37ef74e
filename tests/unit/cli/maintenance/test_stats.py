"""The command stats, against a real master."""

from __future__ import annotations

import json
import time

import pytest
from typer.testing import CliRunner

from crawlfleet.cli.app import app
from tests.unit.cli.maintenance.conftest import ThreadedMaster

WAITING = {"task_type": "echo", "parameters": {}, "min_resources": {"nobody-has": 1}}


@pytest.fixture
def filled(master: ThreadedMaster) -> ThreadedMaster:
    tasks = [{**WAITING, "priority": priority} for priority in (10, 5, 5, 1)]
    master.run(lambda client: client.submit_batch(tasks))
    return master


def test_the_four_sizes_and_the_totals(filled: ThreadedMaster) -> None:
    result = CliRunner().invoke(app, ["stats"])
    assert result.stdout.splitlines() == [
        "QUEUE   WAITING",
        "high    1",
        "normal  2",
        "low     1",
        "retry   0",
        "tasks: 4 (4 pending)",
    ]
    answer = json.loads(CliRunner().invoke(app, ["stats", "--json"]).stdout)
    assert answer["queues"] == {"high": 1, "normal": 2, "low": 1, "retry": 0}
    assert answer["tasks"]["total"] == 4


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_watching_prints_a_line_at_each_interval(
    filled: ThreadedMaster, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    result = CliRunner().invoke(app, ["stats", "--watch", "--every", "1", *options])
    lines = result.stdout.splitlines()
    if options:
        assert [json.loads(line)["queues"]["normal"] for line in lines] == [2, 2, 2]
    else:
        assert lines[0].split() == ["TIME", "HIGH", "NORMAL", "LOW", "RETRY", "RUNNING", "ENDED", "ENDED/S"]
        assert lines[2].split()[1:] == ["1", "2", "1", "0", "0", "0", "0.0"]
        assert all(len(line) <= 80 for line in lines)
    assert (pauses, result.exit_code) == ([1.0] * 3, 130)


def test_an_interval_below_its_least_is_refused(master: ThreadedMaster) -> None:
    assert CliRunner().invoke(app, ["stats", "--watch", "--every", "0"]).exit_code == 2
