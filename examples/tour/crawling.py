"""A list of URLs split over the nodes, and a budget that all of them keep together."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from crawlfleet.client._generated.models import GroupView

from .site import PAGES
from .stage import Stage

RATE = 10
SHARDS = 5
# One page at a time, so that the items of a shard are in the order of its URLs.
_HOW: dict[str, Any] = {"concurrency": 1, "selectors": {"page": "main", "title": "h1"}}


def shards(stage: Stage) -> None:
    stage.tell.chapter("Shards", "One list, several nodes, one result in the order of the list.")
    _budget(stage, 50)
    stage.tell.step(f"{PAGES} URLs in {SHARDS} shards, dealt out to the nodes in turn.")
    group = _crawl(stage)
    stage.tell.check(SHARDS, group.progress.completed, "shards completed")
    stage.tell.command(f"crawlfleet group export {group.id}")
    titles = [item["title"] for item in stage.client.group_items(group.id)]
    stage.tell.note(f"{titles[0]}, {titles[1]}, {titles[2]} ... {titles[-1]}")
    stage.tell.check([f"Page {number}" for number in range(PAGES)], titles, "titles, merged")


def host_budget(stage: Stage) -> None:
    stage.tell.chapter("A host's budget", "So many requests a second, whatever the number of nodes.")
    stage.tell.step(f"The same crawl, but the site is asked {RATE} times a second at most, by all nodes together.")
    _budget(stage, RATE)
    before = len(_arrivals(stage))
    _crawl(stage)
    host = stage.site.removeprefix("http://")
    stage.tell.command(f"crawlfleet host show {host}")
    shown = stage.client.host(host).host
    stage.tell.check((RATE, "host"), (shown.budget.rate, shown.budget.rate_from), "the budget, and where it comes from")
    arrivals = _arrivals(stage)[before:]
    most = _most_in_a_second(arrivals)
    took_s = arrivals[-1] - arrivals[0]
    stage.tell.note(f"The site's own log: {len(arrivals)} requests in {took_s:.1f} s.")
    # It is kept where requests leave: the site may see one more that was long on its way.
    stage.tell.check_that(most <= RATE + 1, f"{RATE} in any second, one more at most", most)


def _budget(stage: Stage, rate: int) -> None:
    host = stage.site.removeprefix("http://")
    stage.tell.command(f"crawlfleet host set {host} --rate {rate} --concurrency 8")
    stage.client.put_host(host, rate=rate, concurrency=8)


def _crawl(stage: Stage) -> GroupView:
    stage.tell.command(
        f"crawlfleet group shard web_crawl --over urls --values urls.txt --count {SHARDS} --wait"
        f" --params '{json.dumps(_HOW)}' --field schedule_strategy=round_robin"
    )
    urls = [f"{stage.site}/page/{number}" for number in range(PAGES)]
    group = stage.client.shard(
        "web_crawl", {"urls": urls, **_HOW}, over="urls", count=SHARDS, schedule_strategy="round_robin"
    )
    group = stage.client.wait_group(group.id, timeout=60)
    nodes = {stage.cluster.names[str(task.assigned_node)] for task in stage.client.list(group=group.id)}
    stage.tell.check_that(len(nodes) > 1, "several nodes took part", ", ".join(sorted(nodes)))
    return group


def _arrivals(stage: Stage) -> list[float]:
    with urllib.request.urlopen(f"{stage.site}/log", timeout=10) as answer:
        return sorted(json.load(answer))


def _most_in_a_second(arrivals: list[float]) -> int:
    """In any sliding second."""
    return max(sum(at <= other < at + 1.0 for other in arrivals) for at in arrivals)
