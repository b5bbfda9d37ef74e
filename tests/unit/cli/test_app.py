"""The command line without a master: parsing, help, exit codes, what is told on standard error."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import crawlfleet
from crawlfleet.cli import values
from crawlfleet.cli.app import app
from crawlfleet.cli.wait.tasks import bar_figures
from crawlfleet.settings.loading import load_settings
from crawlfleet.settings.master import MasterSettings, StandaloneSettings
from crawlfleet.settings.worker import WorkerSettings

runner = CliRunner()


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the settings nor the installation of whoever runs the tests."""
    for name in ("URL", "TOKEN", "DATA_DIR", "CONFIG", "MODE"):
        monkeypatch.delenv(f"CRAWLFLEET_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    group = get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands())


def test_every_command_of_the_contract_is_there() -> None:
    task = ["submit", "batch", "list", "show", "watch", "cancel", "retry", "log", "results", "why", "export", "quality"]
    wanted = {
        *((name,) for name in ["standalone", "master", "worker", "distribute", "init", "status", "submit-task"]),
        *(("task", name) for name in task),
        *(("node", name) for name in ["list", "show", "drain", "ready", "slots", "remove"]),
        *(("cluster", name) for name in ["list", "show", "set", "usage"]),
        *(("dead-letter", name) for name in ["list", "groups", "show", "replay", "drop"]),
        *(("group", name) for name in ["add", "shard", "list", "show", "watch", "cancel", "retry", "export", "remove"]),
        ("group", "quality"),
        *(("queue", name) for name in ["list", "pause", "resume", "set"]),
        *(("project", name) for name in ["list", "show", "set", "reset"]),
        ("quota",),
        *(("flow", name) for name in ["submit", "list", "show", "watch", "cancel", "resume", "drop"]),
        *(("schedule", name) for name in ["add", "list", "show", "pause", "resume", "run", "remove", "next"]),
        *(("host", name) for name in ["list", "show", "set", "reset", "forgive"]),
        *(("token", name) for name in ["create", "list", "revoke", "rotate"]),
        *(("config", name) for name in ["show", "get", "set"]),
        *((name,) for name in ["start-workers", "stats", "clean-up", "backup", "restore", "reset", "bench", "doctor"]),
        *(("repair", name) for name in ["counters", "ready", "results", "store"]),
    }
    assert wanted <= set(ALL)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_examples_and_takes_json(path: tuple[str, ...]) -> None:
    result = runner.invoke(app, [*path, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"crawlfleet {' '.join(path)}" in result.output
    assert "Examples:" in result.output
    assert "--json" in result.output


def test_the_version() -> None:
    assert runner.invoke(app, ["--version"]).output == f"crawlfleet {crawlfleet.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["task", "submit"],
        ["task", "submit", "echo", "--params", "{"],
        ["task", "submit", "echo", "--params", "[1]"],
        ["task", "submit", "echo", "--params", '{"a": NaN}'],
        ["task", "submit", "echo", "--params", '{"a": ' * 100_000],
        ["task", "submit", "echo", "--params", "@missing.json"],
        ["task", "submit", "echo", "--priority", "11"],
        ["task", "submit", "echo", "--priority", "urgent"],
        ["task", "submit", "echo", "--field", "timeout_s"],
        ["task", "batch", "missing.jsonl"],
        ["task", "list", "--limit", "0"],
        ["schedule", "add", "echo"],
        ["schedule", "add", "echo", "--every", "5m", "--cron", "* * * * *"],
        ["schedule", "add", "echo", "--every", "often"],
        ["schedule", "add", "echo", "--every", "5m", "--overlap", "never"],
        ["schedule", "next"],
        ["schedule", "next", "--cron", "0 0 30 2 *"],
        ["schedule", "next", "--cron", "* * * * *", "--time-zone", "Nowhere"],
        ["schedule", "next", "--every", "0s"],
        ["token", "create", "--role", "god"],
        ["token", "create"],
        ["token", "revoke", "first"],
        ["master", "--port", "eighty"],
        ["distribute"],
        ["distribute", "--mode", "both"],
        ["submit-task", "--task-type", "echo"],
    ],
)
def test_a_wrong_option_is_exit_code_2(arguments: list[str]) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr


def test_nothing_to_call_is_told_with_a_hint() -> None:
    result = runner.invoke(app, ["status"])
    assert result.exit_code == 2
    assert "error: no address of a master was given" in result.stderr
    assert "hint: give one by --url, CRAWLFLEET_URL" in result.stderr


def test_a_master_that_does_not_answer_is_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "address").write_text("http://127.0.0.1:9\n")
    (tmp_path / "admin.token").write_text("ab" * 32)
    result = runner.invoke(app, ["node", "list", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "error: no master answers at http://127.0.0.1:9" in result.stderr
    assert "hint: is the master running?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["master", "--store", "mysql://db"], "store: 'mysql://db' is neither sqlite:///FILE"),
        (["master", "--port", "70000"], "port: 70000"),
        (["master", "--config", "none.toml"], "config: cannot be read: No such file"),
        (["standalone", "--nodes", "-1"], "nodes: -1"),
        (["worker"], "masters: is needed"),
        (["worker", "--master", "here"], "masters: 'here' is not an address"),
        (["worker", "--master", "http://h:1", "--capability", "x"], "capabilities: 'x' is not of the form"),
        (["distribute", "--mode", "worker"], "masters: is needed"),
        (["status", "--url", "here"], "url: 'here' is not an address"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_says_where_it_came_from(arguments: list[str], said: str) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2
    assert f"error: {said}" in result.stderr
    assert "(from " in result.stderr
    assert result.stdout == ""


def test_a_wrong_setting_of_the_environment_is_named_by_its_variable() -> None:
    result = runner.invoke(app, ["master"], env={"CRAWLFLEET_MAX_RETRIES": "many"})
    assert result.exit_code == 2
    assert "max_retries: 'many'" in result.stderr
    assert "(from CRAWLFLEET_MAX_RETRIES)" in result.stderr


def test_the_placeholder_key_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"api_key": "your-secure-api-key-here"}')
    for mode in ("master", "worker", "standalone"):
        result = runner.invoke(app, ["distribute", "--mode", mode, "--config", str(file)])
        assert result.exit_code == 2
        assert (
            f"api_key: this is the placeholder of the documentation, not a key (from {file}: api_key)" in result.stderr
        )
        assert "hint: crawlfleet token create" in result.stderr


def test_config_show_says_where_each_value_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("port: 9000\nregion: us\n")
    arguments = ["config", "show", "--config", str(file), "--data-dir", str(tmp_path), "--json"]
    result = runner.invoke(app, arguments, env={"CRAWLFLEET_HOST": "0.0.0.0"})
    shown = json.loads(result.stdout)
    assert shown["mode"] == "master"
    assert shown["settings"]["port"] == {"value": 9000, "source": "file", "from": f"{file}: port"}
    assert shown["settings"]["host"] == {"value": "0.0.0.0", "source": "environment", "from": "CRAWLFLEET_HOST"}
    assert shown["settings"]["data_dir"]["from"] == "--data-dir"
    assert shown["settings"]["broker"] == {"value": "memory:", "source": "default", "from": "default"}
    assert [left["key"] for left in shown["ignored"]] == ["region"]
    text = runner.invoke(app, arguments[:-1]).stdout
    assert "ignored: region = us" in text


def test_config_show_follows_the_mode_of_the_file_and_hides_secrets(tmp_path: Path) -> None:
    file = tmp_path / "w.toml"
    file.write_text('mode = "worker"\nmasters = ["http://m:1"]\nenrol_token = "topsecret"\n')
    result = runner.invoke(app, ["config", "show", "--config", str(file)])
    assert result.exit_code == 0
    assert "http://m:1" in result.stdout
    assert "topsecret" not in result.output
    assert runner.invoke(app, ["config", "show", "--mode", "client"]).exit_code == 0


@pytest.mark.parametrize("style", ["json", "toml"])
def test_init_writes_three_configurations_that_load(tmp_path: Path, style: str) -> None:
    result = runner.invoke(app, ["init", "--format", style, "--json"])
    assert result.exit_code == 0
    files = [Path(name) for name in json.loads(result.stdout)["files"]]
    assert [file.name for file in files] == [
        f"distribution_{mode}.{style}" for mode in ("master", "worker", "standalone")
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "enrol.token").write_text("ab" * 32)
    for file, cls in zip(files, (MasterSettings, WorkerSettings, StandaloneSettings), strict=True):
        loaded: Any = load_settings(cls, file)
        assert not loaded.ignored
    if style == "toml":
        text = files[0].read_text()
        assert tomllib.loads(text)["mode"] == "master"
        assert all(f"{name} = " in text for name in MasterSettings.model_fields)


def test_init_keeps_what_is_there_unless_forced() -> None:
    assert runner.invoke(app, ["init"]).exit_code == 0
    again = runner.invoke(app, ["init"])
    assert again.exit_code == 1
    assert "already there" in again.stderr and "hint: --force" in again.stderr
    assert runner.invoke(app, ["init", "--force"]).exit_code == 0


def test_distribute_reads_the_usual_file_and_notes_what_means_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "distribution_master.json").write_text('{"dispatch_interval": 10, "port": -1}')
    result = runner.invoke(app, ["distribute", "--mode", "master", "--device-id", "worker-001"])
    assert result.exit_code == 2
    assert "note: settings from config/distribution_master.json" in result.stderr
    assert "note: --device-id is ignored" in result.stderr
    assert "(from config/distribution_master.json: port)" in result.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("steps: [", "neither JSON nor YAML"),
        ("name: x", "an object with steps"),
        ("[1, 2]", "an object with steps"),
        ("steps: {a: {task: {task_type: echo}}}\nstep: 1", "not step"),
        (None, "cannot read"),
    ],
)
def test_a_file_that_is_no_flow_is_exit_code_2(tmp_path: Path, text: str | None, complaint: str) -> None:
    file = tmp_path / "flow.yaml"
    if text is not None:
        file.write_text(text)
    result = runner.invoke(app, ["flow", "submit", str(file)])
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_cron_is_previewed_without_a_master() -> None:
    zoned = ["schedule", "next", "--cron", "30 2 29 3 *", "--time-zone", "Europe/Berlin", "--count", "3"]
    runs = json.loads(runner.invoke(app, [*zoned, "--json"]).stdout)["runs"]
    assert len(runs) == 3
    assert {run["local"][4:19] for run in runs} <= {"-03-29T02:30:00", "-03-29T03:00:00"}
    assert {run["local"][19:25] for run in runs} <= {"+01:00", "+02:00"}
    assert len(runner.invoke(app, ["schedule", "next", "--every", "90s"]).stdout.splitlines()) == 6


def test_help_is_quick() -> None:
    """Nothing heavy is imported for it; the time itself is generous, as the machine may be busy."""
    code = "import sys; import crawlfleet.cli.app; print(*sys.modules)"
    started = time.monotonic()
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    took = time.monotonic() - started
    heavy = {"aiohttp", "fastapi", "pydantic", "sqlalchemy", "msgspec", "uvicorn", "structlog", "rich", "yaml"}
    assert not heavy & set(loaded)
    assert took < 5


def test_figures_of_an_executor_stand_in_one_line_and_draw_nothing() -> None:
    assert bar_figures({"pages": 12, "note": "[/x]", "deep": {"a": 1}}) == "pages 12, note \\[/x]"
    assert (bar_figures(None), len(bar_figures({"note": "x" * 500}))) == ("", 100)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["project", "set", "shop"], "name what to set"),
        (["project", "set", "shop", "--max-running", "many"], "--max-running: a number or none"),
        (["queue", "set", "news", "--order", "random"], "--order is fifo or lifo"),
    ],
)
def test_a_setting_that_makes_no_sense_is_told_before_anybody_is_called(arguments: list[str], told: str) -> None:
    found = runner.invoke(app, arguments)
    assert found.exit_code == 2
    assert told in found.stderr


def test_single_parameters_stand_over_those_in_json() -> None:
    found = values.parse_parameters('{"url": "https://a.example", "depth": 1}', ["depth=2", "tag=new", "urls=[]"])
    assert found == {"url": "https://a.example", "depth": 2, "tag": "new", "urls": []}


def test_a_parameter_without_a_value_is_exit_code_2() -> None:
    refused = runner.invoke(app, ["task", "submit", "echo", "-p", "hello"])
    assert refused.exit_code == 2
    assert "NAME=VALUE" in refused.stderr


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[1", '[{"task_type": "echo", "priority": NaN}]', "{" + '"a": {' * 50_000]
)
def test_a_file_of_tasks_that_is_no_json_is_exit_code_2(tmp_path: Path, text: str) -> None:
    (tmp_path / "tasks.json").write_text(text)
    refused = runner.invoke(app, ["task", "batch", "tasks.json"])
    assert (refused.exit_code, refused.exception.__class__) == (2, SystemExit)
    assert "not JSON" in refused.stderr
