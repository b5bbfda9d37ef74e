"""The same tree crawled by wget, by one task, and by one crawl over several members."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from crawlfleet.client import AsyncClient

DEPTH = 1_000
PATIENCE_S = 900.0


class Crawled(NamedTuple):
    paths: list[str]
    """Of its items."""
    took_s: float


async def by_wget(url: str, agent: str, folder: Path) -> float:
    """How long it took; the pages are in the server's log.

    By our rules: without end, robots obeyed, no queries, and no pages that only a form or a <link> names.
    """
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        "wget",
        "--recursive",
        "--level=inf",
        "--execute",
        "robots=on",
        "--no-config",
        "--tries=2",
        "--no-verbose",
        "--delete-after",
        "--ignore-tags=link,form",
        "--reject-regex",
        r"\?",
        "--user-agent",
        agent,
        "--directory-prefix",
        str(folder),
        "--output-file",
        str(folder.with_suffix(".log")),
        url,
    )
    # 8: a page was not found; 4: a link led to another port, where nobody is.
    if await process.wait() not in {0, 4, 8}:
        raise RuntimeError(f"wget ended with {process.returncode}: see {folder.with_suffix('.log')}")
    return time.perf_counter() - began


def parameters(agent: str) -> dict[str, Any]:
    return {"depth": DEPTH, "max_pages": 100_000, "user_agent": agent, "follow": {"deny": [r"\?"]}, "concurrency": 16}


async def by_task(client: AsyncClient, url: str, agent: str) -> Crawled:
    began = time.perf_counter()
    task = await client.submit("web_crawl", {**parameters(agent), "url": url})
    (ended,) = await client.wait([task.id], timeout=PATIENCE_S)
    took_s = time.perf_counter() - began
    if ended.status != "completed":
        raise RuntimeError(f"the task ended as {ended.status}: {ended.error}")
    items = [item async for item in client.results(task.id)]
    return Crawled([path_of(item["url"]) for item in items], took_s)


async def by_members(client: AsyncClient, url: str, agent: str, members: int) -> Crawled:
    began = time.perf_counter()
    group = await client.crawl([url], parameters(agent), members=members)
    ended = await client.wait_group(group.id, timeout=PATIENCE_S)
    took_s = time.perf_counter() - began
    if ended.failures:
        raise RuntimeError(f"members failed: {ended.failures}")
    items = [item async for item in client.group_items(group.id)]
    return Crawled([path_of(item["url"]) for item in items], took_s)


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")
