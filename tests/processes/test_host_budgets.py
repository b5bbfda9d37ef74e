"""One budget per host over the whole cluster: the site's own log says whether it was kept."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from testkit.patience import promised
from tests.processes.fleet import Fleet, Process
from tests.processes.logging_site import PAGES, LoggingSite, most_in_a_second

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RATE = 20
AWAY_S = 12.0
REACH_S = 2.0
"""What was under way, and how long it takes until all nodes know."""


def crawls(site: LoggingSite, count: int) -> list[dict[str, Any]]:
    return [
        {"task_type": "web_crawl", "parameters": {"url": f"{site.url}/crawl{number}/", "depth": 1, "max_pages": PAGES}}
        for number in range(count)
    ]


def freeze(worker: Process, number: signal.Signals) -> None:
    """The agent and all its processes, as if the machine slept."""
    for process in worker.tree():
        process.send_signal(number)


async def test_the_site_is_never_asked_more_often_than_its_budget(running: Fleet, site: LoggingSite) -> None:
    await running.start("--allow-host", site.host, workers=4, slots=4)
    await running.client.put_config({"host_rate": RATE, "host_concurrency": 8})
    await site.hold(after=60)
    tasks = await running.submit(crawls(site, 8))
    await site.wait_held()
    killed, frozen, *_ = running.workers
    await killed.kill()
    freeze(frozen, signal.SIGSTOP)
    await site.release()

    async def are_given_up() -> bool:
        return sum(node.status == "online" for node in await running.client.nodes()) == 2

    # What the frozen node held is somebody else's when it wakes up.
    await running.until(are_given_up, "the lost nodes are still believed in")
    freeze(frozen, signal.SIGCONT)
    await running.until_status(tasks, "completed")
    arrivals = await site.arrivals()
    assert len(arrivals) >= len(tasks) * PAGES
    # Requests that came while the site waited for a core were noted together.
    most = RATE * (1 + await site.worst_lag_s()) + 1
    assert RATE * 0.25 < most_in_a_second(arrivals) <= most


async def test_a_refusal_keeps_all_nodes_away_for_as_long_as_the_site_asks(running: Fleet, site: LoggingSite) -> None:
    await running.start("--allow-host", site.host, workers=2, slots=2)
    await running.client.put_host(site.host, rate=40, concurrency=8)
    await site.hold(after=30)
    tasks = await running.submit(crawls(site, 4))
    await site.wait_held()
    # Those that are held are refused when they are released.
    refused_at = await site.refuse(AWAY_S)
    await site.release()

    async def is_known() -> bool:
        return (await running.client.host(site.host)).host.is_backing_off

    await running.until(is_known, "the refusal is not known")
    await running.until_status(tasks, "completed")
    arrivals = await site.arrivals()
    quiet = [at for at in arrivals if refused_at + promised(REACH_S) < at < refused_at + AWAY_S - 0.5]
    assert quiet == []
    assert (await running.client.host(site.host)).host.refused >= 1
