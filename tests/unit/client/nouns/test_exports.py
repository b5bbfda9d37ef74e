"""Exports into files: whole under their name, or not there."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from crawlfleet.client import ApiError, Unreachable
from tests.unit.client.test_client import Script, error, served

TASK = "task-0000000000000001"


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def file(body: bytes, is_complete: bool = True) -> web.Response:
    return web.Response(body=body, headers={"Export-Complete": str(is_complete).lower()})


async def half(request: web.Request) -> web.StreamResponse:
    """An answer that breaks after some bytes."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half of it")
    assert request.transport is not None
    request.transport.abort()
    return response


async def test_an_export_is_saved_and_its_growth_told(tmp_path: Path) -> None:
    told: list[int] = []
    script = Script(file(b"a,b\r\n1,2\r\n", is_complete=False))
    async with served(script) as client:
        saved = await client.save_export(TASK, tmp_path / "x.csv", format="csv", bom=True, on_bytes=told.append)
    assert saved == (tmp_path / "x.csv", 10, False)
    assert told == [10]
    assert (tmp_path / "x.csv").read_bytes() == b"a,b\r\n1,2\r\n"
    assert script.requests == [f"GET /api/v1/tasks/{TASK}/results:export?format=csv&bom=true&guard=false"]


async def test_a_broken_export_begins_again_from_the_first_byte(tmp_path: Path) -> None:
    asked = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return await half(request) if asked < 3 else file(b"whole")

    async with served(answer) as client:
        saved = await client.save_export(TASK, tmp_path / "x.jsonl")
    assert (asked, saved.bytes, (tmp_path / "x.jsonl").read_bytes()) == (3, 5, b"whole")
    assert files(tmp_path) == ["x.jsonl"]


async def test_what_never_comes_whole_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"old")
    async with served(half) as client:
        with pytest.raises(Unreachable):
            await client.save_export(TASK, tmp_path / "x.jsonl")
    assert (files(tmp_path), (tmp_path / "x.jsonl").read_bytes()) == (["x.jsonl"], b"old")


async def test_a_busy_master_is_asked_again_and_a_refusal_is_not(tmp_path: Path) -> None:
    script = Script(error(503), file(b"{}\n"))
    async with served(script) as client:
        assert (await client.save_group_export("group-1", tmp_path / "x.jsonl", partial=True)).bytes == 3
    refused = Script(error(422))
    async with served(refused) as client:
        with pytest.raises(ApiError):
            await client.save_export(TASK, tmp_path / "y.jsonl")
    assert (len(script.requests), len(refused.requests)) == (2, 1)
    assert files(tmp_path) == ["x.jsonl"]


async def half_an_export(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"x" * 2_000_000)
    await asyncio.Event().wait()
    raise AssertionError


async def test_an_interrupted_export_leaves_nothing(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async with served(half_an_export) as client:
        saving = asyncio.create_task(client.save_export(TASK, tmp_path / "x.jsonl", on_bytes=lambda _size: begun.set()))
        await begun.wait()
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
    assert files(tmp_path) == []


@asynccontextmanager
async def stalling() -> AsyncIterator[str]:
    """The address of a master that gives half an export, and then says nothing more."""
    async with served(half_an_export) as client:
        yield client.url


async def test_ctrl_c_leaves_no_half_file(tmp_path: Path) -> None:
    async with stalling() as url:
        command = (sys.executable, "-m", "crawlfleet.cli", "task", "export", TASK, "-o", "items.csv", "--url", url)
        process = await asyncio.create_subprocess_exec(
            *command, "--token", "secret", cwd=tmp_path, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(60):
                # Half of it is there, under another name.
                while not any(name.endswith(".part") for name in files(tmp_path)):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                process.send_signal(signal.SIGINT)
                _, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert files(tmp_path) == []
