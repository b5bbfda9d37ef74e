"""The command clean-up, against a real master."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from crawlfleet.bootstrap.results import open_place
from crawlfleet.cli.app import app
from crawlfleet.client import AsyncClient
from tests.unit.cli.maintenance.conftest import ThreadedMaster

WAITING = {"task_type": "echo", "parameters": {}, "min_resources": {"nobody-has": 1}}


@pytest.fixture
def filled(master: ThreadedMaster) -> ThreadedMaster:
    async def fill(client: AsyncClient) -> None:
        for item in await client.submit_batch([WAITING] * 3):
            await client.cancel(item.id)

    master.run(fill)
    asyncio.run(open_place(master.settings.results).put(0x1122334455667788, 7, "items", 0, b"{}\n"))
    return master


def test_nothing_is_removed_unless_asked(filled: ThreadedMaster) -> None:
    result = CliRunner().invoke(app, ["clean-up"])
    assert result.exit_code == 0
    assert "results: 1 of 1 files belong to no task (" in result.stdout
    assert "nodes: 0 nodes have been away for long" in result.stdout
    assert "no leader has trusted its clock yet" in result.stderr
    assert "nothing was removed: --apply does it" in result.stderr
    answer = json.loads(CliRunner().invoke(app, ["clean-up", "--results", "--apply", "--json"]).stdout)
    assert answer["results"]["removed"] == 1
    assert answer["results"]["examples"] == ["task-1122334455667788"]
    assert "0 of 0 files" in CliRunner().invoke(app, ["clean-up", "--results"]).stdout


def test_finished_tasks_by_filter(filled: ThreadedMaster) -> None:
    command = ["clean-up", "--tasks", "--older-than", "0s"]
    result = CliRunner().invoke(app, [*command, "--status", "failed"])
    assert result.stdout == "tasks: 0 of 3 finished ones\n"
    result = CliRunner().invoke(app, [*command, "--status", "failed,cancelled", "--apply"])
    assert result.stdout == "tasks: 3 of 3 finished ones; 3 removed\n"
    assert filled.run(lambda client: client.stats()).total == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tasks"], "--older-than: needed with --tasks"),
        (["--status", "failed"], "filters of --tasks"),
        (["--tasks", "--older-than", "soon"], "'soon' is no span such as 90s"),
        (["--nodes", "--gone-for", "1y"], "--gone-for: '1y' is no span"),
    ],
)
def test_a_wrong_option_is_named(master: ThreadedMaster, options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["clean-up", *options])
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_what_the_master_refuses_is_told(master: ThreadedMaster) -> None:
    result = CliRunner().invoke(app, ["clean-up", "--tasks", "--older-than", "1d", "--status", "pending"])
    assert (result.exit_code, "status[0]" in result.stderr) == (1, True)
