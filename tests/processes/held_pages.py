"""Tasks that run until the test releases them: each asks for a page that the site holds back, or waits for a file.

One that asks for a page is of a built-in type: it shares a process with others, and the site knows that it runs; it is
complete when a master has taken its items. One that waits for a file has a process of its own and no items: it can end
while no master can be reached.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from testkit.site import SiteProcess, site_process
from tests.processes.fleet import Fleet

PAGES = 400
ALLOW = ("--allow-host", "127.0.0.1")
"""The option of workers that may visit the site."""
USERS = ("--executors", "tests.integration.execution.executors.user_executors")
"""That of workers that have tasks which wait for a file."""


def held_task(site: SiteProcess, number: int, **fields: Any) -> dict[str, Any]:
    """A crawl of one page, `/products/{number}`."""
    return {"task_type": "web_crawl", "parameters": {"url": f"{site.url}/products/{number}", "depth": 0}, **fields}


def held_tasks(site: SiteProcess, numbers: Iterable[int], **fields: Any) -> list[dict[str, Any]]:
    return [held_task(site, number, **fields) for number in numbers]


class WaitingTasks:
    """Tasks that end when the test says so, wherever they run by then."""

    def __init__(self, folder: Path, count: int) -> None:
        self._file = folder / "may-end"
        self._started = [folder / f"started-{number}" for number in range(count)]

    @property
    def tasks(self) -> list[dict[str, Any]]:
        return [
            {"task_type": "waits_for_file", "parameters": {"released": str(self._file), "started": str(started)}}
            for started in self._started
        ]

    def are_running(self) -> bool:
        return all(started.exists() for started in self._started)

    def release(self) -> None:
        self._file.touch()


@asynccontextmanager
async def held_site() -> AsyncIterator[SiteProcess]:
    """A site that holds every page."""
    async with site_process("--products", str(PAGES)) as site:
        await site.hold()
        yield site


async def lift_budgets(running: Fleet) -> None:
    """No task waits for its turn at the site: what is held is all that was placed."""
    await running.client.put_config({"host_rate": 10_000, "host_concurrency": 256})
