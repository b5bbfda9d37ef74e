"""The command doctor, as it is typed: with a master, without one, and on what is no installation."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from aiohttp import web
from typer.testing import CliRunner, Result

from crawlfleet.cli.app import app
from crawlfleet.cli.exit_codes import ExitCode
from crawlfleet.scheduling.doctor.check_list import CHECKS
from crawlfleet.settings.master import MasterSettings
from tests.integration.bootstrap.maintenance.installations import fill
from tests.unit.cli.work.test_export import said
from tests.unit.client.test_client import Script, served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "fleet"
    asyncio.run(fill(MasterSettings(data_dir=path, port=0), 2))
    return path


def run(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "--data-dir", str(folder), *options])


def finding(severity: str, check: str = "D9", hint: str = "crawlfleet status") -> dict[str, str]:
    return {"check": check, "area": "masters", "severity": severity, "sentence": f"it is {severity}", "hint": hint}


def answer(*findings: dict[str, str]) -> web.Response:
    return web.json_response({"findings": list(findings), "counts": {}})


def test_a_folder_is_checked_without_a_master(folder: Path) -> None:
    result = run(folder, "--json")
    assert (result.exit_code, result.exception) == (ExitCode.OK, None)
    report = json.loads(result.stdout)
    assert report["source"] == str(folder)
    assert {each["check"] for each in report["findings"]} == {check.id for check in CHECKS}
    sentences = {each["check"]: each["sentence"] for each in report["findings"]}
    assert sentences["D1"] == "not checked: no master runs"
    assert sentences["D20"] == "2 tasks wait and no node has joined"
    assert report["counts"]["error"] == 0


def test_warnings_are_a_failure_when_asked_for(folder: Path) -> None:
    assert run(folder, "--only", "D20").exit_code == ExitCode.OK
    result = run(folder, "--only", "d20", "--strict")
    assert result.exit_code == ExitCode.FAILURE
    assert result.stdout.splitlines() == [
        "warning  D20  2 tasks wait and no node has joined",
        "              hint: crawlfleet token create --role enrol, then crawlfleet worker",
        f"1 check of {folder}: 1 warning",
    ]


def test_errors_are_a_failure(folder: Path, tmp_path: Path) -> None:
    (folder / "admin.token").chmod(0o644)
    try:
        result = run(folder, "--only", "D28")
    finally:
        (folder / "admin.token").chmod(0o600)
    assert result.exit_code == ExitCode.FAILURE
    assert f"error    D28  others may read {folder / 'admin.token'} (mode 644)" in result.stdout


def test_the_checks_change_nothing(folder: Path) -> None:
    before = sqlite3.connect(folder / "crawlfleet.db").iterdump()
    dump = list(before)
    assert run(folder).exit_code == ExitCode.OK
    assert list(sqlite3.connect(folder / "crawlfleet.db").iterdump()) == dump


async def test_a_master_makes_the_checks() -> None:
    script = Script(
        answer(finding("ok", "D1", ""), finding("warning"), finding("error", "D10"), finding("note", "D12"))
    )
    result = await said(script, "doctor", "--only", "masters,D1", code=1)
    assert script.requests == ["GET /api/v1/doctor?only=masters,D1"]
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines if line[0] != " "][:4] == [
        ["error", "D10"],
        ["warning", "D9"],
        ["note", "D12"],
        ["ok", "D1"],
    ]
    assert lines[-1].endswith(": 1 error, 1 warning, 1 note, 1 ok")


async def test_a_master_that_cannot_is_replaced_by_checks_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"type": "urn:crawlfleet:error:internal", "code": "internal", "detail": "it broke", "status": 500}
    async with served(Script(web.json_response(problem, status=500))) as client:
        monkeypatch.setenv("CRAWLFLEET_URL", client.url)
        result = await asyncio.to_thread(run, folder, "--only", "D11")
    assert result.exit_code == ExitCode.OK
    assert "note: the master cannot make the checks (it broke); they are made here" in result.stderr
    assert result.stdout.splitlines()[-1] == f"1 check of {folder}: 1 ok"


async def test_a_caller_who_may_not_ask_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"type": "urn:crawlfleet:error:not_allowed", "code": "not_allowed", "detail": "no", "status": 403}
    async with served(Script(web.json_response(problem, status=403))) as client:
        monkeypatch.setenv("CRAWLFLEET_URL", client.url)
        result = await asyncio.to_thread(run, folder, "--only", "D11")
    assert (result.exit_code, "error: no" in result.stderr) == (ExitCode.FAILURE, True)


def test_an_unknown_check_is_a_wrong_option(folder: Path) -> None:
    result = run(folder, "--only", "D15")
    assert result.exit_code == ExitCode.USAGE
    assert "--only: 'd15' is no check: use D1 to D30" in result.stderr


def test_a_folder_without_an_installation_is_told(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == ExitCode.USAGE
    assert "there is no installation" in result.stderr
    assert list(tmp_path.iterdir()) == [], "nothing was made"


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "crawlfleet.db").write_text("hello")
    result = run(tmp_path)
    assert result.exit_code == ExitCode.USAGE
    assert "is no database of SQLite" in result.stderr


def test_a_half_restored_database_is_an_error_and_no_crash(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "crawlfleet.db")
    connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    connection.execute("INSERT INTO alembic_version VALUES ('0099_unknown')")
    connection.commit()
    connection.close()
    result = run(tmp_path, "--json")
    assert result.exit_code == ExitCode.FAILURE
    sentences = {each["check"]: each["sentence"] for each in json.loads(result.stdout)["findings"]}
    assert "revision 0099_unknown" in sentences["D7"]
    assert sentences["D28"].startswith("not checked: ")


def test_a_database_that_cannot_be_reached_leaves_the_checks_of_files(tmp_path: Path) -> None:
    result = run(tmp_path, "--store", "postgresql://fleet@127.0.0.1:1/fleet", "--json")
    assert (result.exit_code, result.exception) == (ExitCode.OK, None)
    sentences = {each["check"]: each["sentence"] for each in json.loads(result.stdout)["findings"]}
    assert sentences["D9"].startswith("not checked: the store cannot be reached: ")
    assert sentences["D2"] == "the store is on no shared file system"
