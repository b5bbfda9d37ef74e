"""`crawlfleet demo`: what it promises, and that nothing of it is left, whenever it is stopped."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import psutil
import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PATIENCE_S = 300.0


async def demo(folder: Path, *options: str, module: str = "crawlfleet.cli") -> asyncio.subprocess.Process:
    """In a folder for temporary files of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        "demo",
        *options,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_it_crawls_the_shop_with_all_nodes_though_a_worker_is_killed(tmp_path: Path) -> None:
    process = await demo(tmp_path, "--products", "120", "--output", "products.csv", "--json")
    async with asyncio.timeout(PATIENCE_S):
        out, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    answer = json.loads(out)
    assert (answer["items"], answer["products"]) == (120, 120)
    assert (answer["group"]["crawl"]["members"], answer["group"]["crawl"]["failed"]) == (3, 0)
    assert "kill -9" in told.decode()
    with (tmp_path / "products.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["_url"] for row in rows}) == len(rows) == 120
    assert all(row["title"] and row["price"] for row in rows)
    assert _left_in(tmp_path) == ["products.csv"]


@pytest.mark.parametrize("word", ["Starting", "kill -9"])
async def test_ctrl_c_ends_it_at_any_moment_and_leaves_nothing(tmp_path: Path, word: str) -> None:
    module = "crawlfleet.cli" if word == "Starting" else "tests.processes.demo_on_test_site"
    process = await demo(tmp_path, "--products", "200", module=module)
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_S):
        if word != "Starting":
            # One page is kept back: the crawl is not over while the worker is killed.
            said = await _until_said(process.stderr.readline, "Crawling the shop at ")
            await _hold(said.partition("http")[2].partition(",")[0], "^/products/200$")
        await _until_said(process.stderr.readline, word)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, told = await process.communicate()
    assert process.returncode == 130, told.decode()
    # At first there is nothing yet that could be.
    assert word == "Starting" or "nothing is left behind" in told.decode()
    assert "Traceback" not in told.decode()
    assert _left_in(tmp_path) == []
    assert [child for child in children if child.is_running()] == []


@pytest.mark.parametrize("output", ["products.xlsx", "nowhere/products.csv"])
async def test_an_output_that_cannot_be_is_told_before_anything_starts(tmp_path: Path, output: str) -> None:
    process = await demo(tmp_path, "--output", output)
    _, told = await process.communicate()
    assert process.returncode == 2
    assert "--output" in told.decode()
    assert "Starting" not in told.decode()


def _left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def _hold(address: str, pattern: str) -> None:
    async with aiohttp.request("GET", f"http{address}/-/hold", params={"pattern": pattern}) as response:
        assert response.status == 200


async def _until_said(read: Callable[[], Awaitable[bytes]], word: str) -> str:
    while line := await read():
        if word in line.decode():
            return line.decode()
    raise AssertionError(f"it ended and never said {word!r}")
