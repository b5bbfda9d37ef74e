"""A standalone installation whose agents cannot start ends with the reason; one that runs leaves no tokens behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from crawlfleet.client import AsyncClient
from tests.processes.fleet import Fleet, Process

END_S = 60.0


class Starter(Fleet):
    """Standalone installations in processes of their own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.processes: list[Process] = []

    async def start_standalone(self, *options: str) -> Process:
        argv = ("standalone", "--data-dir", str(self.data_dir), "--port", "0", "--slots", "1", "--json", *options)
        self.processes.append(await self._spawn("standalone", *argv))
        return self.processes[-1]


@pytest.fixture
async def starter(tmp_path: Path) -> AsyncIterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    for process in starter.processes:
        for each in reversed(process.tree()):
            each.kill()
        await process.child.wait()


async def _exit_code(process: Process) -> int:
    async with asyncio.timeout(END_S):
        return await process.child.wait()


async def test_a_module_that_cannot_be_loaded_ends_the_start_with_its_reason(starter: Starter) -> None:
    process = await starter.start_standalone("--executors", "nomodule")
    assert await _exit_code(process) == 2
    said = process.log.read_text()
    assert "error: executors: module 'nomodule' could not be loaded: ModuleNotFoundError" in said
    assert "http://" not in said
    assert not starter.data_dir.exists()


async def test_an_agent_that_cannot_start_ends_the_installation(starter: Starter) -> None:
    folder = starter.data_dir / "nodes" / "local-2"
    folder.mkdir(parents=True)
    (folder / "node.json").write_text("not ours")
    process = await starter.start_standalone("--nodes", "2")
    assert await _exit_code(process) == 2
    said = process.log.read_text()
    assert said.count('"not_started"') == 1
    assert "node.json is damaged" in said
    assert f"error: the agent local-2 cannot start in {folder}" in said
    assert "Traceback" not in said


async def test_an_installation_without_agents_is_refused_with_the_command_for_it(starter: Starter) -> None:
    process = await starter.start_standalone("--nodes", "0")
    assert await _exit_code(process) == 2
    said = process.log.read_text()
    assert "error: nodes: 0" in said
    assert "hint: crawlfleet master" in said


async def test_an_agent_that_comes_back_needs_no_second_token_and_survives_a_bad_disk(starter: Starter) -> None:
    process = await starter.start_standalone()
    address, token = starter.data_dir / "address", starter.data_dir / "admin.token"
    await starter.until(address.exists, "it does not start", END_S)
    async with AsyncClient(address.read_text().strip(), token.read_text().strip()) as client:

        async def online() -> bool:
            return [node.status for node in await client.nodes()] == ["online"]

        await starter.until(online, "its agent does not join", END_S)
        identity = starter.data_dir / "nodes" / "local-1" / "node.json"
        kept = identity.read_text()
        (agent,) = (each for each in psutil.Process(process.pid).children() if "agent_child" in str(each.cmdline()))
        # Not a mistake of the start any more: the installation goes on, and so does the agent once it is mended.
        identity.write_text("not ours")
        os.kill(agent.pid, signal.SIGKILL)
        await starter.until(lambda: "node.json is damaged" in process.log.read_text(), "it is not noticed", END_S)
        identity.write_text(kept)

        async def back() -> bool:
            return process.log.read_text().count('"session_opened"') >= 2 and await online()

        await starter.until(back, "its agent does not come back", END_S)
        enrolments = [each for each in await client.tokens() if each.role == "enrol"]
        assert len(enrolments) == 1
        assert sum(each.is_usable for each in enrolments) == 0
    assert await process.stop() == 0
