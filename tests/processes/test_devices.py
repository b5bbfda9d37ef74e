"""Devices without an agent beside real agents, while one is killed, one frozen past its lease and one started twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from testkit.patience import PATIENCE_S
from tests.processes.fleet import Fleet, Process, fleet, sleep

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("device_program.py")
SLOTS = 4
TASKS = 1_000
LONG_S = 3 * PATIENCE_S


async def start_device(running: Fleet, name: str) -> Process:
    """A copy of the device: all copies of one name share its key."""
    token = (await running.client.create_token("enrol", uses=1)).token
    log = running.folder / f"{len(running._started) + 1}-{name}.log"
    options = ["--slots", str(SLOTS), "--interval", "1", "--timeout", "3"]
    with log.open("wb") as file:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            running.client.url,
            name,
            "--state",
            str(running.folder / f"{name}.json"),
            *options,
            stdout=file,
            stderr=file,
            env={**os.environ, "ENROL_TOKEN": token},
        )
    device = Process(name, child, log)
    running._started.append(device)
    return device


async def shown(running: Fleet) -> dict[str, Any]:
    answer = await running.call("GET", "/api/distribution/devices?page_size=500")
    return {device["device_id"]: device for device in answer.json["devices"]}


def reports(device: Process, word: str, answer: str) -> set[str]:
    """The executions that a device reported, and was answered so."""
    lines = [line.split() for line in device.log.read_text().splitlines()]
    return {line[1] for line in lines if len(line) == 3 and (line[0], line[2]) == (word, answer)}


async def test_a_thousand_tasks_while_devices_are_killed_frozen_and_doubled(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with fleet(tmp_path) as running:
        await running.start(workers=2, slots=4)
        killed, frozen = [await start_device(running, name) for name in ("killed", "frozen")]
        doubled = [await start_device(running, "doubled")]
        await running.until_online(5)
        doubled.append(await start_device(running, "doubled"))
        held = [{"task_type": "scan", "parameters": {"file": str(gate)}} for _ in range(3 * SLOTS)]
        await running.submit(held)

        async def is_held() -> bool:
            stats = (await running.client.stats()).by_status
            return stats.get("processing", 0) == len(held)

        await running.until(is_held, "the devices do not hold all slots")
        devices = await shown(running)
        assert {name: devices[name]["status"] for name in ("killed", "frozen", "doubled")} == dict.fromkeys(
            ("killed", "frozen", "doubled"), "busy"
        )
        rest = TASKS - len(held)
        scans = [{"task_type": "scan", "parameters": {"n": number}} for number in range(rest // 2)]
        await running.submit([*scans, *(sleep(0.01) for _ in range(rest - len(scans)))])

        await killed.kill()
        frozen.signal(signal.SIGSTOP)

        async def are_lost() -> bool:
            devices = await shown(running)
            return all(devices[name]["status"] == "timeout" for name in ("killed", "frozen"))

        await running.until(are_lost, "the devices are not taken for lost")
        gate.touch()
        frozen.signal(signal.SIGCONT)
        await running.until(
            lambda: len(reports(frozen, "completed", "stale_execution")) == SLOTS, "its old work is not refused"
        )
        own = {"task_type": "scan", "parameters": {}, "node_id": devices["frozen"]["node_id"]}
        await running.submit([own])
        by_status = await running.until_final(TASKS + 1, LONG_S)
        assert by_status["completed"] == TASKS + 1, by_status
        assert not reports(killed, "completed", "accepted")
        assert reports(frozen, "completed", "accepted"), "it works again"
        assert any(reports(copy, "completed", "accepted") for copy in doubled)
        for device in (frozen, *doubled):
            await device.stop()
        assert (await shown(running))["frozen"]["current_tasks"] == 0
        assert await running.verdict() == []
