"""`python -m bench.spread`: a small crawl over three members beside the same crawl as one task, in one run.

The site's budget holds both back, as it does outside of a benchmark: it is the same for one task and for all members
together, so that a member can only lose time to what it waits for. Every executor process has crawled a page before.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from bench.installation import Installation, installation
from bench.table import Row, print_table, say

PAGES = 80
LINKS = 3
MEMBERS = 3
ROUNDS = 9
RATIO = 1.3
BUDGETS = ((60, 16), (100, 16))
"""Requests a second, and requests at a time."""
_POLL_S = 0.01


@asynccontextmanager
async def serving(hits: list[int]) -> AsyncIterator[str]:
    """A tree of pages on a port of its own, which makes it a host of its own."""

    async def page(request: web.Request) -> web.Response:
        number = int(request.match_info["number"] or 0)
        hits.append(number)
        first = LINKS * number + 1
        links = "".join(f"<a href=/{n}>{n}</a>" for n in range(first, min(PAGES, first + LINKS)))
        return web.Response(text=f"<title>{number}</title>{links}", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{number:[0-9]*}", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def crawl_s(one: Installation, budget: tuple[int, int], members: int) -> float:
    """Submit to finished, of one task or of a crawl over so many members; every page has to be asked for once."""
    hits: list[int] = []
    async with serving(hits) as host:
        rate, concurrency = budget
        await one.put(f"hosts/{host}", {"rate": rate, "concurrency": concurrency})
        parameters = {"url": f"http://{host}/", "depth": 50, "max_pages": 10 * PAGES, "concurrency": 16}
        task: dict[str, Any] = {"task_type": "web_crawl", "parameters": parameters}
        began = time.perf_counter()
        if members == 1:
            answer = await one.post("tasks", {**task, "project_id": "bench"})
            await _ended(one, f"tasks/{answer['id']}", lambda said: said["status"] == "completed")
        else:
            answer = await one.post("groups", {"project_id": "bench", "task": task, "crawl": {"members": members}})
            await _ended(one, f"groups/{answer['id']}", lambda said: said["is_complete"])
        took_s = time.perf_counter() - began
    if sorted(hits) != list(range(PAGES)):
        raise RuntimeError(f"not every page was asked for once: {sorted(hits)}")
    return took_s


async def _ended(one: Installation, path: str, is_over: Any) -> None:
    while not is_over(msgspec.json.decode(await one.get(path))):
        await asyncio.sleep(_POLL_S)


async def measure(one: Installation, budget: tuple[int, int], rounds: int, rows: list[Row]) -> None:
    took_s: dict[int, list[float]] = {1: [], MEMBERS: []}
    for number in range(rounds):
        for members in (1, MEMBERS) if number % 2 else (MEMBERS, 1):
            took_s[members].append(await crawl_s(one, budget, members))
        say(f"{budget[0]} a second, round {number + 1} of {rounds}: {took_s[1][-1]:.2f} s, {took_s[MEMBERS][-1]:.2f} s")
    ratio = statistics.median(spread / alone for alone, spread in zip(took_s[1], took_s[MEMBERS], strict=True))
    alone, spread = (statistics.median(took_s[members]) for members in (1, MEMBERS))
    value = f"{ratio:.2f}x of one task ({spread:.2f} s beside {alone:.2f} s)"
    what = f"{PAGES} pages over {MEMBERS} members, {budget[0]} requests a second"
    rows.append(Row(what, value, f"<= {RATIO}x", ratio <= RATIO))


async def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.spread", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as name:
        folder = Path(name) / "spread"
        folder.mkdir()
        flags = ["--allow-host", "127.0.0.1"]
        async with installation(folder, None, nodes=MEMBERS, slots=4, flags=flags) as one:
            # Three rounds: a node has a process for each core, and each loads the engine with its first crawl.
            for _ in range(3):
                await crawl_s(one, (1_000, 64), MEMBERS)
            for budget in BUDGETS:
                await measure(one, budget, args.rounds, rows)
    print_table(rows)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
