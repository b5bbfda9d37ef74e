"""Tasks that run until the test releases them: each asks for a page that the site holds back.

Such a task is of a built-in type, so that it shares a process with others; and the site knows that it runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from crawlfleet.testing.site import SiteProcess, site_process
from tests.processes.fleet import Fleet

PAGES = 400
ALLOW = ("--allow-host", "127.0.0.1")
"""The option of workers that may visit the site."""


def held_task(site: SiteProcess, number: int, **fields: Any) -> dict[str, Any]:
    """A crawl of one page, `/products/{number}`."""
    return {"task_type": "web_crawl", "parameters": {"url": f"{site.url}/products/{number}", "depth": 0}, **fields}


def held_tasks(site: SiteProcess, numbers: Iterable[int], **fields: Any) -> list[dict[str, Any]]:
    return [held_task(site, number, **fields) for number in numbers]


@asynccontextmanager
async def held_site() -> AsyncIterator[SiteProcess]:
    """A site that holds every page."""
    async with site_process("--products", str(PAGES)) as site:
        await site.hold()
        yield site


async def lift_budgets(running: Fleet) -> None:
    """No task waits for its turn at the site: what is held is all that was placed."""
    await running.client.put_config({"host_rate": 10_000, "host_concurrency": 256})
