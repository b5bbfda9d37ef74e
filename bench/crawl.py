"""The crawl engine beside Scrapy, Crawlee, a bare loop of the same client and parser, and wrk, over one site.

python -m bench.crawl                       everything, on two cores: the crawler on one, all else on the other
python -m bench.crawl --part ours           ours and the bare loop alone, in turns
python -m bench.crawl --pages 100000        memory over a long crawl, ours alone

Ours is the real path: a task submitted over the API, placed on an agent, run in its executor process, with robots.txt,
host grants, limits, address checks, history, progress, and items streamed to the master and read back from there. The
host's budget is raised so that it does not limit. Peers run without all of that. Every crawler has to ask for every
page once and to write the same items, or there is no figure.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.crawl_runs import Run, Site, on_cores, ours, run_peer, run_peers, served, wrk_rate
from bench.table import Row, print_table, say

PAGES = 5_000
LONG = 20_000
"""From so many pages on it is memory that is looked at."""
TURNS = 3
FLAT_MB = 32.0
"""So much more than at a tenth of the way is still flat: what is known of 100,000 URLs has to be somewhere."""
BARE, SCRAPY, CRAWLEE = (f"bench.peers.{name}_crawl" for name in ("bare", "scrapy", "crawlee"))


def best(runs: Sequence[Run]) -> Run:
    """Each of its figures by itself, the median: the machine has other things to do as well."""
    return Run(*(median(figures) for figures in zip(*runs, strict=True)))


def shown(run: Run) -> str:
    return f"{run.pages_s:,.0f} pages/s, {run.cpu_s:.2f} CPU-s per 1,000, {run.memory_mb:.0f} MB"


async def beside_bare(site: Site, folder: Path, cores: Sequence[int], turns: int) -> tuple[list[Run], list[Run]]:
    """Ours and the bare loop in turns, a process of each on every one of the cores."""
    mine: list[Run] = []
    bare: list[Run] = []
    async with ours(folder / f"ours-{len(cores)}", site, cores) as one:
        for _ in range(turns):
            run = total(await one.run(site))
            # Two keep all cores busy, and so what the rest of the installation takes is theirs.
            others_s = one.others_cpu_s[-1] if len(cores) > 1 else 0.0
            mine.append(run._replace(cpu_s=run.cpu_s + others_s))
            bare.append(total(await asyncio.to_thread(run_bare, site, folder, cores)))
            say(f"  ours {shown(mine[-1])} (master and agent {one.others_cpu_s[-1]:.2f}); bare {shown(bare[-1])}")
    return mine, bare


def run_bare(site: Site, folder: Path, cores: Sequence[int]) -> list[Run]:
    return run_peers(site, folder, sys.executable, BARE, cores=cores)


def total(runs: Sequence[Run]) -> Run:
    """Of processes that ran at once: pages of all of them, and what one of them took on average."""
    return Run(
        sum(run.pages_s for run in runs), sum(run.cpu_s for run in runs) / len(runs), max(run.memory_mb for run in runs)
    )


def ratios(mine: Sequence[Run], theirs: Sequence[Run]) -> tuple[float, float]:
    """How many times as many pages a second, and for a second of processor time."""
    pairs = list(zip(mine, theirs, strict=True))
    return median(a.pages_s / b.pages_s for a, b in pairs), median(b.cpu_s / a.cpu_s for a, b in pairs)


def row(name: str, mine: Sequence[Run], theirs: Sequence[Run], least: float | None) -> Row:
    """Judged by processor time: each crawler keeps its core busy, as far as others let it have one."""
    by_time, by_cpu = ratios(mine, theirs)
    value = f"{by_cpu:.2f}x by CPU, {by_time:.2f}x by time; {shown(best(theirs))}"
    return Row(f"ours beside {name}", value, f">= {least:g}x" if least else "", by_cpu >= least if least else None)


PEERS: tuple[tuple[str, str, tuple[str, ...], float | None], ...] = (
    ("Scrapy, a lean spider", SCRAPY, ("lean",), 5.0),
    ("Scrapy with its own link extractor", SCRAPY, ("own",), 15.0),
    ("Crawlee, its ParselCrawler", CRAWLEE, (), None),
)


async def compare(folder: Path, cores: tuple[int, int], python: str, parts: str) -> list[Row]:
    core, rest = cores
    with on_cores([rest]), served(PAGES, rest) as site:
        say("ours and the bare loop, one process each")
        mine, bare = await beside_bare(site, folder, [core], TURNS)
        rows = [Row("ours, one executor process", shown(best(mine)), "", None), row("the bare loop", mine, bare, 0.6)]
        if parts == "all":
            rows += await asyncio.to_thread(beside_peers, site, folder, core, python, best(mine))
    with on_cores(cores), served(PAGES, rest) as site:
        say("ours and the bare loop, two processes each")
        # The site has no core of its own now.
        mine, bare = await beside_bare(site, folder, cores, TURNS)
        rows.append(Row("ours, two executor processes", shown(best(mine)), "", None))
        rows.append(row("two bare loops", mine, bare, 0.85))
    return rows


def beside_peers(site: Site, folder: Path, core: int, python: str, mine: Run) -> list[Row]:
    fetched = run_peer(site, folder, sys.executable, BARE, "fetch", core=core)
    rows = [row("the client alone, which reads nothing", [mine], [fetched], None)]
    own = run_peer(site, folder, sys.executable, BARE, "own", core=core)
    rows.append(row("the bare loop, asking as the engine does", [mine], [own], None))
    rate = wrk_rate(site, core)
    rows.append(Row("wrk, one page over and over", "not installed" if rate is None else f"{rate:,.0f}/s", "", None))
    memory_mb = 0.0
    for name, module, more, least in PEERS:
        say(name)
        theirs = run_peer(site, folder, python, module, *more, core=core)
        say(f"  {shown(theirs)}")
        rows.append(row(name, [mine], [theirs], least))
        memory_mb = theirs.memory_mb
    ratio = mine.memory_mb / memory_mb
    return [*rows, Row("memory beside Crawlee's", f"{ratio:.2f}x", "<= 1x", ratio <= 1)]


async def long_crawl(folder: Path, cores: tuple[int, int], pages: int) -> list[Row]:
    core, rest = cores
    with on_cores([rest]), served(pages, rest) as site:
        async with ours(folder / "ours", site, [core]) as one:
            seen: list[tuple[int, float]] = []
            watching = asyncio.create_task(_watch(one.memory_mb, site, seen))
            run = total(await one.run(site))
            watching.cancel()
    at = {share: next(mb for done, mb in seen if done >= share * pages) for share in (0.1, 0.25, 0.5, 0.75)}
    at[1.0] = seen[-1][1]
    steps = ", ".join(f"{mb:.0f} MB at {share:.0%}" for share, mb in at.items())
    grown = at[1.0] - at[0.1]
    return [
        Row(f"{pages:,} pages", shown(run), "", None),
        Row("memory on the way", steps, f"grows by < {FLAT_MB:.0f} MB after a tenth", grown < FLAT_MB),
    ]


async def _watch(memory_mb: Callable[[], float], site: Site, seen: list[tuple[int, float]]) -> None:
    while True:
        requests = await asyncio.to_thread(site.requests)
        seen.append((requests, memory_mb()))
        await asyncio.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.crawl")
    parser.add_argument("--part", choices=["all", "ours"], default="all")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"from {LONG:,} on: memory over a long crawl")
    parser.add_argument("--peers-python", default=sys.executable, help="a Python that has Scrapy and Crawlee")
    asked = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("two cores are needed: one for the crawler, one for all else")
    with TemporaryDirectory() as name:
        if asked.pages >= LONG:
            rows = asyncio.run(long_crawl(Path(name), (cores[0], cores[1]), asked.pages))
        else:
            rows = asyncio.run(compare(Path(name), (cores[0], cores[1]), asked.peers_python, asked.part))
    print_table(rows)


if __name__ == "__main__":
    main()
