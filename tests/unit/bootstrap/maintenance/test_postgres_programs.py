"""The programs of PostgreSQL: found or named, with the password out of sight, ended with their caller."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawlfleet.bootstrap.maintenance import postgres_programs
from crawlfleet.errors import ConfigError


def program(folder: Path, name: str, *lines: str) -> Path:
    file = folder / name
    file.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    file.chmod(0o700)
    return file


def test_a_missing_program_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"pg_dump is not on the PATH: .* PostgreSQL 16 .*postgresql-client-16;"):
        postgres_programs.find_program("pg_dump", "16.2 (Debian 16.2-1)")
    found = program(tmp_path, "pg_dump")
    assert postgres_programs.find_program("pg_dump", "16.2") == str(found)


async def test_the_password_is_in_no_command_line(tmp_path: Path) -> None:
    file = program(tmp_path, "pg_dump", f'echo "$@" > {tmp_path}/seen', f'echo "$PGPASSWORD" > {tmp_path}/password')
    address = "postgresql://fleet:s3cr%40t@db:5432/fleet?sslmode=require"
    await postgres_programs._run_program(str(file), ["--file=x"], address, lambda: None)
    assert (tmp_path / "seen").read_text() == "--dbname=postgresql://fleet@db:5432/fleet?sslmode=require --file=x\n"
    assert (tmp_path / "password").read_text() == "s3cr@t\n"


async def test_what_a_failing_program_writes_is_told(tmp_path: Path) -> None:
    file = program(tmp_path, "pg_dump", "echo 'pg_dump: error: server version mismatch' >&2", "exit 1")
    with pytest.raises(ConfigError, match="pg_dump failed: pg_dump: error: server version mismatch"):
        await postgres_programs._run_program(str(file), [], "postgresql://db/fleet", lambda: None)


async def test_a_cancelled_caller_ends_its_program(tmp_path: Path) -> None:
    file = program(
        tmp_path, "pg_dump", f"trap 'echo ended > {tmp_path}/ended; exit 1' TERM", "while :; do sleep 0.05; done"
    )
    began = asyncio.Event()
    task = asyncio.ensure_future(postgres_programs._run_program(str(file), [], "postgresql://db/fleet", began.set))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "ended").exists()
