"""Crawl whole documentation trees and compare the pages with what wget reaches: `make crawl-trees`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.installation import installation
from crawlfleet.client import AsyncClient
from tests.trees.crawls import Crawled, by_members, by_task, by_wget
from tests.trees.packages import OTHERS, TREES, Missing, Tree, unpacked
from tests.trees.web_server import WebServer, serving

NODES, SLOTS, MEMBERS = 4, 2, 4
_SHOWN = 20


async def main(names: Sequence[str], kept: Path) -> int:
    known = {tree.name: tree for tree in (*TREES, *OTHERS)}
    if strange := [name for name in names if name not in known]:
        sys.stderr.write(f"error: no tree {strange[0]!r}\n  hint: there are {', '.join(known)}\n")
        return 2
    trees = [known[name] for name in names] or list(TREES)
    try:
        root = unpacked(kept, trees)
    except Missing as exc:
        sys.stderr.write(f"error: {exc}\n")
        return 2
    problems: list[str] = []
    _say("| tree | crawler | pages | seconds | pages/s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="crawlfleet-trees-") as name:
        folder = Path(name)
        async with serving(root, trees, folder) as server:
            allowed = {"CRAWLFLEET_ALLOW_HOSTS": ",".join(server.host(tree) for tree in trees)}
            async with (
                installation(folder / "data", None, nodes=NODES, slots=SLOTS, env=allowed) as running,
                AsyncClient(running.url, running.token) as client,
            ):
                for tree in trees:
                    await client.put_host(server.host(tree), rate=10_000, concurrency=100)
                    problems += await _compare(client, server, tree, folder)
    for problem in problems:
        _say(f"DIFFERENT: {problem}")
    _say("The sets of pages differ." if problems else "The sets of pages are equal.")
    return 1 if problems else 0


async def _compare(client: AsyncClient, server: WebServer, tree: Tree, folder: Path) -> list[str]:
    url = f"http://{server.host(tree)}/"
    took_s = await by_wget(url, "wget", folder / f"wget-{tree.name}")
    expected = _pages(server, tree, "wget")
    _row(tree, "wget", len(set(expected)), took_s)
    ours = {
        "one task": ("one", await by_task(client, url, "one")),
        f"{MEMBERS} members": ("many", await by_members(client, url, "many", MEMBERS)),
    }
    problems = []
    for how, (agent, crawled) in ours.items():
        _row(tree, how, len(crawled.paths), crawled.took_s)
        problems += [f"{tree.name}, {how}: {line}" for line in _differences(server, tree, agent, crawled, expected)]
    return problems


def _differences(server: WebServer, tree: Tree, agent: str, crawled: Crawled, expected: list[str]) -> list[str]:
    found = Counter(crawled.paths)
    told = {
        "not found": set(expected) - set(found),
        "found by us alone": set(found) - set(expected),
        "twice in the results": {path for path, times in found.items() if times > 1},
        "asked for and not in the results": set(_pages(server, tree, agent)) - set(found),
        "closed by robots.txt": {path for path in found if tree.closed and path.startswith(tree.closed)},
    }
    return [f"{len(paths)} {what}: {', '.join(sorted(paths)[:_SHOWN])}" for what, paths in told.items() if paths]


def _pages(server: WebServer, tree: Tree, agent: str) -> list[str]:
    """What the server gave a visitor as a page."""
    kinds = {"text/html", "application/xhtml+xml", "text/plain"}
    asked = server.asked(tree, agent)
    return [one.path for one in asked if one.status == 200 and one.content_type in kinds and one.path != "/robots.txt"]


def _row(tree: Tree, how: str, pages: int, took_s: float) -> None:
    _say(f"| {tree.name} | {how} | {pages:,} | {took_s:.1f} | {pages / took_s:,.0f} |")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:], Path("build/trees").absolute())))
